"""Where findings and deletion costs go, for tests; they fulfil `Notices` and `DeletionCosts`."""

from __future__ import annotations

from scaler.control.ports import MarkedPod, WriteFailed
from scaler.core.diagnosis_notice import Notice


class FakeNotices:
    """Keeps what it was told, unless a namespace is said to refuse."""

    def __init__(self) -> None:
        """Have been told nothing."""
        self.told: list[Notice] = []
        self.refusals: dict[str, WriteFailed] = {}
        self.asked = 0

    async def tell(self, notice: Notice) -> None:
        """Keep a notice."""
        self.asked += 1
        if notice.namespace in self.refusals:
            raise self.refusals[notice.namespace]
        self.told.append(notice)

    @property
    def reasons(self) -> list[str]:
        """Return the reasons in the order in which they were told."""
        return [notice.reason for notice in self.told]


class FakeDeletionCosts:
    """Keeps what was written, unless it is said to refuse."""

    def __init__(self) -> None:
        """Have written nothing."""
        self.written: list[tuple[str, str, int | None]] = []
        self.found: dict[tuple[str, str], bool] = {}
        """Pods that carry a cost, besides those written, and whether they are strays."""
        self.sweeps = 0
        self.refusal: WriteFailed | None = None
        self.unread: WriteFailed | None = None
        self.asked = 0

    async def write(self, namespace: str, pod: str, cost: int | None) -> None:
        """Keep a cost."""
        self.asked += 1
        if self.refusal is not None:
            raise self.refusal
        self.written.append((namespace, pod, cost))
        self.found.pop((namespace, pod), None)

    async def marked(self) -> list[MarkedPod]:
        """Return what was written and is not taken away, and what a test says was found."""
        self.sweeps += 1
        if self.unread is not None:
            raise self.unread
        newest = {(namespace, pod): cost for namespace, pod, cost in self.written}
        marked = {pod: False for pod, cost in newest.items() if cost is not None} | self.found
        return [MarkedPod(*pod, stray=stray) for pod, stray in marked.items()]
