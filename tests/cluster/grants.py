"""Rights that a test has just given to somebody: the API server takes a moment to know of them."""

from controlplane import Api, eventually

REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def wait_granted(
    user: Api, verb: str, resource: str, *, namespace: str = "", name: str = ""
) -> None:
    """Waits until the user may do this to a resource of the core group.

    Args:
        user: who asks for itself.
        verb: of the API.
        resource: such as `pods`.
        namespace: empty for all of them.
        name: of the one object that it may be limited to.
    """
    asked = {"verb": verb, "resource": resource, "namespace": namespace, "name": name}

    def is_granted() -> bool:
        answer = user.create(REVIEWS, {"spec": {"resourceAttributes": asked}})
        return bool(answer["status"]["allowed"])

    eventually(f"the right to {verb} {resource} is in force", is_granted)
