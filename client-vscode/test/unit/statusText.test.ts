import assert from "node:assert/strict";
import { test } from "node:test";

import { mineWords, progressWords } from "../../src/core/miningText";
import type { State } from "../../src/core/palace";
import type { StatusResult } from "../../src/core/protocol";
import { barWords, problems, statusDocument, statusSections } from "../../src/core/statusText";
import { FirstRun, WorkMeter } from "../../src/core/statusWork";
import { mineOf, statusOf } from "./support/told";

const NOW = new Date("2026-03-10T09:00:00Z");
const READY: State = { kind: "ready", version: "0.1.0", dataDirectory: "/data" };

function bar(status: StatusResult, state: State = READY): ReturnType<typeof barWords> {
  return barWords(state, status, new WorkMeter().update(status, 0), NOW);
}

test("at rest the bar has the number of exchanges and nothing else", () => {
  const { text, severity, spoken } = bar(statusOf());
  assert.deepEqual([text, severity, spoken], ["$(history) 4,310", "fine", "Palace: 4,310 exchanges"]);
});

test("an empty store says so", () => {
  const { text, tooltip, severity } = bar(statusOf({ exchanges: 0, sessions: 0, sources: {}, lastMinedAt: null }));
  assert.deepEqual([text, severity], ["$(history) 0", "fine"]);
  assert.match(tooltip, /Nothing is indexed yet/);
  assert.ok(!tooltip.includes("Last read"));
});

test("while files wait the bar spins and counts what is done of the most that waited", () => {
  const meter = new WorkMeter();
  meter.update(statusOf({ sourcesPending: 50 }), 0);
  const status = statusOf({ sourcesPending: 31 });
  const { text, tooltip } = barWords(READY, status, meter.update(status, 10_000), NOW);
  assert.equal(text, "$(sync~spin) 4,310 · 38 %");
  assert.match(tooltip, /Reading transcripts\\: 19 of 50 files, about 16 s left/);
  assert.match(tooltip, /Pending: 31 files to read/);
});

test("while texts wait for vectors the bar counts them, with the daemon's estimate", () => {
  const { text, tooltip } = bar(statusOf({ vectors: 380, vectorsPending: 620, embedding: { etaS: 125 } }));
  assert.equal(text, "$(sync~spin) 4,310 · 38 %");
  assert.match(tooltip, /Computing vectors\\: 380 of 1,000 texts, about 2 min left/);
});

test("a change of model counts the next one's vectors", () => {
  const coverage = [
    { model: "old", space: "old@1", role: "answering", vectors: 1_000, texts: 1_000 },
    { model: "new", space: "new@1", role: "next", vectors: 250, texts: 1_000 },
  ] as const;
  assert.equal(bar(statusOf({ embedding: { isSwitching: true, coverage } })).text, "$(sync~spin) 4,310 · 25 %");
});

test("the moment's work of a live session does not spin", () => {
  assert.equal(bar(statusOf({ sourcesPending: 1, vectorsPending: 4 })).text, "$(history) 4,310");
});

test("work that is nearly done is not called done", () => {
  assert.equal(bar(statusOf({ vectors: 99_940, vectorsPending: 60 })).text, "$(sync~spin) 4,310 · 99 %");
});

test("paused mining is told in words and counts no progress", () => {
  const { text, tooltip, severity } = bar(statusOf({ sourcesPending: 40, embedding: { isPaused: true } }));
  assert.deepEqual([text, severity], ["$(debug-pause) 4,310 · paused", "fine"]);
  assert.match(tooltip, /Recall goes on/);
});

test("failed files are told, but alarm nobody", () => {
  const { text, severity } = bar(statusOf({ sources: { ok: 100, failed: 12 } }));
  assert.deepEqual([text, severity], ["$(history) 4,310 · 12 files failed", "fine"]);
  assert.equal(bar(statusOf({ failures: { "/a.jsonl": "malformed" } })).text, "$(history) 4,310 · 1 file failed");
});

test("a missing model is told with the way to install it, and needs a person", () => {
  const { text, tooltip, severity } = bar(statusOf({ modelState: "failed: the model is not installed", lastError: "the model is not installed", vectorsPending: 900 }));
  assert.deepEqual([text, severity], ["$(history) 4,310 · vectors off: model not installed", "attention"]);
  assert.match(tooltip, /palace\\-daemon model install/);
  assert.ok(!tooltip.includes("Last error"), "one problem is told once");
});

test("a model that does not load is told with its reason", () => {
  const [one] = problems(statusOf({ modelState: "failed: bad header" }));
  assert.equal(one?.short, "vectors off: model does not load");
  assert.match(one.long, /\(bad header\)/);
});

test("an error of the daemon needs a person, and outranks failed files", () => {
  const { text, severity, tooltip } = bar(statusOf({ lastError: "no space is left", sources: { failed: 2 } }));
  assert.deepEqual([text, severity], ["$(history) 4,310 · an error", "attention"]);
  assert.match(tooltip, /No space is left\\\./);
});

test("polling is told as slow to notice, with the notifier's own reason", () => {
  const [one] = problems(statusOf({ notifier: "polling (inotify watch limit reached)" }));
  assert.deepEqual([one?.short, one?.needsPerson], ["slow to notice", false]);
  assert.match(one?.long ?? "", /inotify watch limit reached/);
  assert.deepEqual(problems(statusOf({ notifier: "inotify" })), []);
});

test("skipped lines are told with the main reasons", () => {
  const { tooltip } = bar(statusOf({ linesSkipped: { thinking: 3, tool_result: 40, progress: 1_917, meta: 1 }, sources: { ok: 9, skipped: 3 } }));
  assert.match(tooltip, /Skipped: 3 files, 1,961 lines, most of them: progress, tool result, thinking/);
});

test("without a daemon the bar says why, and only what needs a person is coloured", () => {
  const states: [State, string, string][] = [
    [{ kind: "connecting" }, "$(loading~spin) Palace", "fine"],
    [{ kind: "starting" }, "$(loading~spin) Palace: daemon starting", "fine"],
    [{ kind: "waiting", retryInMs: 2_000, reason: "it ended" }, "$(sync~spin) Palace: reconnecting", "fine"],
    [{ kind: "missing", reason: "no Python has it", hint: "install it" }, "$(warning) Palace: daemon not installed", "attention"],
    [{ kind: "failed", reason: "it crashed five times", hint: "see the log" }, "$(error) Palace: daemon does not run", "broken"],
    [{ kind: "off" }, "$(circle-slash) Palace: off", "fine"],
  ];
  for (const [state, text, severity] of states) {
    const told = bar(statusOf(), state);
    assert.deepEqual([told.text, told.severity], [text, severity], state.kind);
  }
  assert.match(bar(statusOf(), states[4]?.[0]).tooltip, /It crashed five times.* See the log/);
});

test("the whole status has every figure and every failure, with nothing of a path taken as Markdown", () => {
  const watched = [
    { path: "/home/kim/.claude/projects", agent: "claude-code", origin: "default", exists: true, files: 12, sizeBytes: 2_000_000, foundAt: null },
    { path: "/home/kim/.codex/sessions", agent: "codex", origin: "default", exists: false, files: 0, sizeBytes: 0, foundAt: null },
    { path: "/mnt/old", agent: "", origin: "settings", exists: false, files: 0, sizeBytes: 0, foundAt: null },
  ];
  const status = statusOf({ failures: { "/a|b/*x*.jsonl": "cannot be read" }, redactions: { api_key: 2 }, linesSkipped: { tool_result: 3 }, watched });
  const sections = statusSections(status, NOW);
  const rows = new Map(sections.flatMap((one) => one.rows).map((one) => [one.label, one.value]));
  assert.equal(rows.get("/home/kim/.claude/projects"), "Claude Code: 12 files, 2.0 MB");
  assert.equal(rows.get("/mnt/old"), "settings: does not exist yet");
  assert.equal(rows.get("Not there yet"), "1 directory of Codex");
  assert.equal(rows.get("Api key"), "2 places");
  assert.equal(rows.get("Tool result"), "3 lines");
  assert.equal(rows.get("Database"), "14.5 MB");
  assert.equal(rows.get("Memory"), "207 MB");
  assert.equal(sections[0]?.title, "Problems");
  assert.ok(statusDocument(sections, NOW).includes("/a\\|b/\\*x\\*\\.jsonl"));
});

test("a first run is announced once it has lasted ten seconds, and is over when nothing waits", () => {
  const run = new FirstRun();
  assert.equal(run.update(statusOf({ exchanges: 0 }), 0), "no");
  assert.equal(run.update(statusOf({ exchanges: 0, sourcesPending: 5 }), 1_000), "wait");
  assert.equal(run.dueInMs(3_000), 8_000);
  assert.equal(run.update(statusOf({ exchanges: 90, sourcesPending: 4 }), 11_000), "show");
  assert.equal(run.update(statusOf({ exchanges: 99, vectorsPending: 500 }), 12_000), "show");
  assert.equal(run.update(statusOf({ exchanges: 99 }), 13_000), "no");
  assert.equal(run.update(statusOf({ exchanges: 99, sourcesPending: 900 }), 30_000), "no");
});

test("a short first run, an ordinary backlog and paused mining announce nothing", () => {
  const short = new FirstRun();
  assert.equal(short.update(statusOf({ exchanges: 0, sourcesPending: 5 }), 0), "wait");
  assert.equal(short.update(statusOf({ exchanges: 9 }), 4_000), "no");
  for (const nowMs of [5_000, 25_000]) assert.equal(short.update(statusOf({ exchanges: 9, sourcesPending: 1 }), nowMs), "no");
  const ordinary = new FirstRun();
  for (const nowMs of [0, 20_000]) assert.equal(ordinary.update(statusOf({ sourcesPending: 150 }), nowMs), "no");
  const paused = new FirstRun();
  for (const nowMs of [0, 20_000]) assert.equal(paused.update(statusOf({ exchanges: 0, sourcesPending: 5, embedding: { isPaused: true } }), nowMs), "no");
});

test("a long backlog is announced as a first run is", () => {
  const run = new FirstRun();
  assert.equal(run.update(statusOf({ sourcesPending: 201 }), 0), "wait");
  assert.equal(run.update(statusOf({ sourcesPending: 20 }), 10_000), "show");
});

test("texts that no model can embed keep no first run going", () => {
  const run = new FirstRun();
  assert.equal(run.update(statusOf({ exchanges: 0, sourcesPending: 5 }), 0), "wait");
  assert.equal(run.update(statusOf({ vectorsPending: 900, modelState: "failed: the model is not installed" }), 20_000), "no");
});

test("progress is told with counts and what is left", () => {
  assert.equal(progressWords({ kind: "report", stage: "mine", done: 3, total: 1_200, unit: "files", etaS: 90 }), "reading transcripts: 3 of 1,200 files, about 1 min left");
  assert.equal(progressWords({ kind: "report", stage: "embed" }), "computing vectors");
  assert.equal(progressWords({ kind: "begin", title: "Mining" }), "");
});

test("mining ends in a sentence, which says what went wrong", () => {
  assert.deepEqual(mineWords(mineOf({ files: 3, seconds: 0.04 })), { text: "Palace looked at 3 files in 1 s: nothing new.", isBad: false });
  assert.match(mineWords(mineOf({ files: 0 })).text, /found no transcripts/);
  const { text, isBad } = mineWords(mineOf({ files: 239, filesFailed: 1, exchangesAdded: 527, exchangesReplaced: 8, seconds: 80, vectorsReason: "the model is not installed" }));
  assert.ok(isBad);
  assert.equal(
    text,
    "Palace looked at 239 files in 1 min: 527 exchanges added, 8 replaced. 1 file could not be read. Search by meaning does not know them yet: the model is not installed.",
  );
});
