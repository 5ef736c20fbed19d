"""What libraries ask jax.extend.backend: which backend there is."""

from fgrad.api import device as _device
from fgrad.version import __version__

__all__ = ["Client", "backends", "get_backend", "get_default_device"]


class Client:
    """The one backend, of the CPU."""

    platform = "cpu"
    platform_version = __version__

    def device_count(self):
        """The number of devices: 1."""
        return _device.device_count()

    def local_device_count(self):
        """The number of devices of this process: 1."""
        return _device.device_count()

    def devices(self):
        """All devices."""
        return _device.devices()

    def local_devices(self):
        """The devices of this process."""
        return _device.devices()

    def process_index(self):
        """The number of this process: 0."""
        return 0


_client = Client()


def get_backend(platform=None):
    """The backend of the CPU; another platform raises RuntimeError.

    >>> get_backend().platform
    'cpu'
    """
    _device.devices(platform)
    return _client


def backends():
    """Every backend by the name of its platform."""
    return {"cpu": _client}


def get_default_device():
    """The device that new arrays are on."""
    return _device.devices()[0]
