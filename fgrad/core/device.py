"""The one device."""


class Device:
    """A device as JAX describes one."""

    __slots__ = ()
    id = local_hardware_id = process_index = 0
    platform = device_kind = "cpu"

    def __repr__(self):
        return "CpuDevice(id=0)"

    def __str__(self):
        return "cpu:0"

    def __reduce__(self):
        return "CPU"


CPU = Device()
