"""What slots say of themselves, and who reads it."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from rich.console import Console

from farm.worker.slot_report import STALE_SECONDS, Reporter, SlotCollector, read_reports, slots_table


def _told() -> dict[str, object]:
    return {
        "back_end": "card", "provider": "CUDAExecutionProvider", "stages": {"look": 1500.0, "swap": 900.0},
        "queues": {"to_encode": 3}, "fill": {"swapper": 0.97},
    }  # fmt: skip


def test_a_report_is_there_while_a_chunk_renders_and_goes_with_it(tmp_path: Path) -> None:
    times = iter([100.0, 101.0, 101.2, 102.5])
    reporter = Reporter(tmp_path / "slots", "w-gpu0", clock=lambda: next(times))
    for done in (24, 30, 60):
        reporter.frame(done, _told)
    [report] = read_reports(tmp_path / "slots", 103.0)
    assert (report.worker, report.back_end, report.fps, report.queues) == ("w-gpu0", "card", 24.0, {"to_encode": 3})
    assert read_reports(tmp_path / "slots", 102.5 + STALE_SECONDS + 1) == []
    (tmp_path / "slots" / "1.json").write_text("{")
    assert len(read_reports(tmp_path / "slots", 103.0)) == 1
    reporter.close()
    assert read_reports(tmp_path / "slots", 103.0) == []


def test_prometheus_and_a_terminal_see_stages_queues_and_fill(tmp_path: Path) -> None:
    reporter = Reporter(tmp_path, "w-gpu0", clock=lambda: 100.0)
    reporter.frame(24, _told)
    reports = read_reports(tmp_path, 100.0)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(SlotCollector(lambda: reports))
    text = generate_latest(registry).decode()
    pid = reports[0].pid
    assert f'farm_slot_stage_fps{{slot="{pid}",stage="look",worker="w-gpu0"}} 1500.0' in text
    assert f'farm_slot_queue_depth{{queue="to_encode",slot="{pid}",worker="w-gpu0"}} 3.0' in text
    assert f'farm_slot_batch_fill{{network="swapper",slot="{pid}",worker="w-gpu0"}} 0.97' in text
    out = StringIO()
    Console(file=out, width=200).print(slots_table(reports))
    assert "look 1500, swap 900" in out.getvalue()
    assert "swapper 97%" in out.getvalue()
