"""A property that is made when it is first looked at, and kept with its object.

Python's own has, before 3.12, one lock for all objects of a class, which it holds while a value is
made: threads that look at different runs would wait for each other. This one has none.

Guarantees. Threads that are the first to look at one object may each make the value, and all are
given the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:  # noqa: N801 - in the place of Python's own
        """Use as `functools.cached_property` is used.

        >>> class Square:
        ...     side = 3
        ...     @cached_property
        ...     def area(self):
        ...         return [self.side**2]
        >>> square = Square()
        >>> square.area is square.area
        True
        """

        def __init__(self, make: Any) -> None:
            self._make = make
            self.__doc__ = make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, made_of: Any, owner: type | None = None) -> Any:
            if made_of is None:
                return self
            # The next look finds it in the object, and does not come here.
            return made_of.__dict__.setdefault(self._name, self._make(made_of))
