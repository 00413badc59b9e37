"""Further extenders, such as LINSTOR's, asked by ours instead of by kube-scheduler.

kube-scheduler itself would run ignorable extenders last, and one that wants whole nodes makes some
of its versions score every node as empty. So ours asks them after its own verdict, sends whole
nodes from its own cache to those that want them, and answers for all.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import aiohttp
import orjson

from schedclass.domain.rawjson import mapping, mappings
from schedclass.settings import ExtraExtender

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]
WholeNode = Callable[[str], Json | None]
"""The raw Node of a name, None if it is not known."""

MAX_ANSWER_BYTES: Final = 256 << 20
TOGETHER_SECONDS: Final = 7.0
"""For all of them within one call: kube-scheduler gives up after 10 s (`httpTimeout`), and tries
one pod after the other."""

MAX_SCORE: Final = 1_000_000
"""kube-scheduler asks for 0 to 10; a sum of what is beyond all bounds could not be written down."""


class ChainedError(Exception):
    """An extender that must not be ignored gave no usable answer; the message names it."""


class ChainedExtenders:
    """Asks each in turn. Use as an async context manager."""

    def __init__(self, extenders: Sequence[ExtraExtender], whole_node: WholeNode) -> None:
        """Nothing is opened before it is entered."""
        self._extenders = tuple(extenders)
        self._whole_node = whole_node
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "ChainedExtenders":
        self._session = aiohttp.ClientSession(trust_env=False)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._extenders)

    async def filter(self, pod: Json, names: list[str]) -> tuple[list[str], dict[str, str]]:
        """Which nodes all of them leave, in their order, and why the others are out.

        Raises:
            ChainedError: one that is not ignorable failed.
        """
        reasons: dict[str, str] = {}
        until = asyncio.get_running_loop().time() + TOGETHER_SECONDS
        for extender in self._extenders:
            if extender.filter_verb and names:
                left, why = await self._filter(extender, pod, names, until)
                reasons.update(why)
                names = left
        return names, reasons

    async def scores(self, pod: Json, names: Sequence[str]) -> dict[str, int]:
        """The sums of weighted scores per node; whoever fails has no say, as in kube-scheduler."""
        totals: dict[str, int] = {}
        until = asyncio.get_running_loop().time() + TOGETHER_SECONDS
        for extender in self._extenders:
            if not extender.prioritize_verb:
                continue
            try:
                answer = await self._ask(extender, extender.prioritize_verb, pod, names, until)
                scores = _scores(extender, answer)
            except ChainedError as error:
                logger.warning("%s", error)
                continue
            for name, score in scores:
                totals[name] = totals.get(name, 0) + score * extender.weight
        return totals

    async def _filter(
        self, extender: ExtraExtender, pod: Json, names: list[str], until: float
    ) -> tuple[list[str], dict[str, str]]:
        try:
            answer = await self._ask(extender, extender.filter_verb, pod, names, until)
            left, reasons = _verdict(extender, answer)
        except ChainedError as error:
            if not extender.ignorable:
                raise
            logger.warning("%s, so it is ignored", error)
            return names, {}
        kept = [name for name in names if name in left]
        return kept, {name: why for name, why in reasons.items() if name not in left}

    async def _ask(
        self, extender: ExtraExtender, verb: str, pod: Json, names: Sequence[str], until: float
    ) -> Any:  # noqa: ANN401 - any JSON value
        url = f"{extender.url_prefix.rstrip('/')}/{verb}"
        assert self._session is not None, "not entered"
        args: dict[str, Any] = {"Pod": pod, "Nodes": None, "NodeNames": names}
        if not extender.node_cache_capable:
            whole = [node for name in names if (node := self._whole_node(name)) is not None]
            args = {"Pod": pod, "Nodes": {"metadata": {}, "items": whole}, "NodeNames": None}
        own = asyncio.get_running_loop().time() + extender.http_timeout
        try:
            async with (
                asyncio.timeout_at(min(own, until)),
                self._session.post(
                    url, data=orjson.dumps(args), headers={"Content-Type": "application/json"}
                ) as answer,
            ):
                if answer.status != 200:
                    raise ChainedError(f"extender {url} answered {answer.status}")
                return orjson.loads(await _whole(answer))
        except (aiohttp.ClientError, OSError, orjson.JSONDecodeError) as error:
            cause = "no answer in time" if isinstance(error, TimeoutError) else error
            raise ChainedError(f"extender {url}: {cause}") from error


async def _whole(answer: aiohttp.ClientResponse) -> bytearray:
    """The body to its end: one read gives no more than has arrived by then."""
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            limit = f"{MAX_ANSWER_BYTES} bytes"
            raise ChainedError(f"extender {answer.url} answered with more than {limit}")
    return body


def _verdict(extender: ExtraExtender, answer: object) -> tuple[set[str], dict[str, str]]:
    """Names that are left and reasons, from an `ExtenderFilterResult` of either kind.

    Field names in any case, as Go reads them; null reads as empty.
    """
    try:
        fields = _fields(answer)
        error = _text(fields.get("error"), "error")
        if error:
            raise ChainedError(f"extender {extender.url_prefix}: {error}")
        if extender.node_cache_capable:
            left = _texts(fields.get("nodenames"), "nodeNames")
        else:
            nodes = mapping(fields.get("nodes"), "nodes")
            left = [_name(node) for node in mappings(nodes.get("items"), "nodes.items")]
        reasons = _reasons(fields, "failedNodes")
        reasons.update(_reasons(fields, "failedAndUnresolvableNodes"))
    except ValueError as wrong:
        raise ChainedError(f"extender {extender.url_prefix}: {wrong}") from None
    return set(left), reasons


def _scores(extender: ExtraExtender, answer: object) -> list[tuple[str, int]]:
    try:
        return [_score(item) for item in mappings(answer, "scores")]
    except ValueError as wrong:
        raise ChainedError(f"extender {extender.url_prefix}: {wrong}") from None


def _score(item: Json) -> tuple[str, int]:
    fields = _fields(item)
    score = fields.get("score") or 0
    if not isinstance(score, int) or isinstance(score, bool) or abs(score) > MAX_SCORE:
        raise ValueError(f"score: must be a whole number of at most {MAX_SCORE}")
    return _text(fields.get("host"), "host"), score


def _fields(answer: object) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise ValueError("the answer is not a JSON object")  # noqa: TRY004 - input, not code
    return {key.lower(): value for key, value in answer.items()}


def _reasons(fields: Json, path: str) -> dict[str, str]:
    reasons = mapping(fields.get(path.lower()), path)
    return {node: _text(why, f"{path}.{node}") for node, why in reasons.items()}


def _name(node: Json) -> str:
    name = _text(mapping(node.get("metadata"), "nodes.items.metadata").get("name"), "name")
    if not name:
        raise ValueError("a node has no name")
    return name


def _texts(value: object, path: str) -> list[str]:
    if not isinstance(value, list | None):
        raise ValueError(f"{path}: must be a list")  # noqa: TRY004 - input, not code
    return [_text(item, path) for item in value or ()]


def _text(value: object, path: str) -> str:
    if not isinstance(value, str | None):
        raise ValueError(f"{path}: must be a string")  # noqa: TRY004 - input, not code
    return value or ""
