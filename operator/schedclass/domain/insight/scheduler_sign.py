"""Whether a scheduler lives that places the pods of a class, as the status of the class tells."""

from schedclass.domain.findings import Finding, Reason, Severity
from schedclass.domain.rawjson import mappings_in
from schedclass.domain.schedulingclass import SchedulingClass

CONDITION = "SchedulerAvailable"


def scheduler_missing_by_status(cls: SchedulingClass | None) -> Finding | None:
    """The finding that nobody places the pods of a class, in the words of its condition.

    None where the condition is not False: it says otherwise, or nobody has written it.
    """
    for condition in mappings_in(cls.status.get("conditions")) if cls is not None else ():
        if (condition.get("type"), condition.get("status")) == (CONDITION, "False"):
            message = str(condition.get("message") or f"{CONDITION} is False.")
            return Finding(Reason.SCHEDULER_MISSING, message, Severity.ERROR)
    return None
