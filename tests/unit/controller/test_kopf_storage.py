"""Kopf's own engine with the controller's settings: events arrive, and nothing is kept or built."""

import kopf

from schedclass.controller.handlers import controller_settings

BODY = kopf.Body(
    {
        "metadata": {"name": "a", "annotations": {"x": "y"}, "labels": {"l": "1"}},
        "spec": {"finalizers": ["kubernetes"]},
    }
)


def test_nothing_of_an_object_is_copied_remembered_or_written() -> None:
    persistence = controller_settings().persistence
    essence = persistence.diffbase_storage.build(body=BODY, extra_fields=[])
    assert essence == {}
    assert persistence.progress_storage.clear(essence=essence) == {}
    assert persistence.diffbase_storage.fetch(body=BODY) is None
    patch = kopf.Patch()
    persistence.diffbase_storage.store(body=BODY, patch=patch, essence=essence)
    persistence.progress_storage.touch(body=BODY, patch=patch, value="now")
    assert not patch


def test_a_task_of_kopf_ends_soon_after_its_objects_last_event() -> None:
    queueing = controller_settings().queueing
    assert 0 < queueing.idle_timeout < 1  # with 0 it would never take the first event
    assert queueing.worker_limit is None
