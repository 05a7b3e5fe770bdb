"""Which licences a deployment allows, and which it has accepted by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from farm.errors import InputError, PolicyError, unknown
from farm.inference.spec import LicenceClass, ModelSpec


@dataclass(frozen=True, slots=True)
class LicencePolicy:
    """allowed: licence classes that jobs may use. accepted: model name → id of the licence that was accepted for it.

    A permissive licence needs no acceptance. An acceptance counts for the licence it was given for: when an entry's
    licence changes, it must be given again.
    """

    allowed: frozenset[LicenceClass] = frozenset({LicenceClass.PERMISSIVE})
    accepted: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, allowed: Iterable[str], accepted: Mapping[str, str] | None = None) -> LicencePolicy:
        """The policy of class names; InputError for one that does not exist."""
        found = {LicenceClass.PERMISSIVE}
        for name in allowed:
            try:
                found.add(LicenceClass(name))
            except ValueError:
                raise unknown(InputError, "licence class", name, LicenceClass, where="FARM_ALLOWED_LICENCES") from None
        return cls(frozenset(found), dict(accepted or {}))

    def check(self, spec: ModelSpec) -> None:
        """Raise PolicyError, saying which leave is missing, unless the model may be used."""
        licence = spec.licence
        if licence.licence_class not in self.allowed:
            raise PolicyError(
                f"Its licence {licence.id} is of class {licence.licence_class.value!r}, which this deployment does "
                "not allow.",
                where=f"model {spec.name}",
                do="Choose another model, or let the operator add the class to FARM_ALLOWED_LICENCES.",
            )
        if licence.licence_class is not LicenceClass.PERMISSIVE and self.accepted.get(spec.name) != licence.id:
            raise PolicyError(
                f"Its licence {licence.id} was not accepted here.",
                where=f"model {spec.name}",
                do=f"Read the terms (farm models show {spec.name}), then: farm models accept-licence {spec.name}",
            )
