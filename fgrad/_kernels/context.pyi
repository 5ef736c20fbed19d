from typing import Any

class Context:
    trace: Any
    axis_env: tuple
    @property
    def settings(self) -> int: ...
    def set_default(self, trace: Any) -> None: ...

def install_config(config: Any, settings: Any) -> None: ...
