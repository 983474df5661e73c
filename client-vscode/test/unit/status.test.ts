import "./support/fakeVscode";

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { editor, settled } from "./support/fakeVscode";
import { FakePalace, partsOf, window } from "./support/fakeWindow";
import { mineOf, statusOf } from "./support/told";
import { PalaceError } from "../../src/core/errors";
import { registerStatus } from "../../src/ui/status";

let palace: FakePalace;
let ending: { dispose(): unknown } | undefined;
let nowMs = 0;

beforeEach(() => {
  window.reset();
  nowMs = 1_000;
  mock.timers.enable({ apis: ["setTimeout"] });
  mock.method(performance, "now", () => nowMs);
  palace = new FakePalace({
    "palace/status": () => statusOf(),
    "palace/pause": () => ({ isPaused: true }),
    "palace/resume": () => ({ isPaused: false }),
  });
});
afterEach(() => {
  ending?.dispose();
  mock.timers.reset();
  mock.restoreAll();
});

async function start(): Promise<NonNullable<(typeof window.bars)[number]>> {
  ending = registerStatus(partsOf(palace));
  await settled();
  const [bar] = window.bars;
  assert.ok(bar);
  return bar;
}

function run(command: string): unknown {
  const registered = editor.commands.get(command);
  assert.ok(registered, command);
  return registered();
}

function pass(milliseconds: number): void {
  nowMs += milliseconds;
  mock.timers.tick(milliseconds);
}

test("the bar asks once when the daemon is reached, then listens", async () => {
  palace.state = { kind: "starting" };
  const bar = await start();
  assert.deepEqual([bar.text, bar.isVisible, bar.command, palace.asked.length], ["$(loading~spin) Palace: daemon starting", true, "palace.showStatus", 0]);
  palace.become({ kind: "ready", version: "0.1.0", dataDirectory: "/data" });
  await settled();
  assert.equal(bar.text, "$(history) 4,310");
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 4_311 }));
  assert.equal(bar.text, "$(history) 4,311");
  pass(600_000);
  assert.deepEqual(palace.asked.map((one) => one.method), ["palace/status"]);
});

test("a daemon that is gone takes its figures with it", async () => {
  const bar = await start();
  palace.become({ kind: "failed", reason: "it crashed", hint: "see the log" });
  assert.deepEqual([bar.text, bar.backgroundColor?.id], ["$(error) Palace: daemon does not run", "statusBarItem.errorBackground"]);
  palace.handlers["palace/status"] = () => statusOf({ exchanges: 5, modelState: "failed: the model is not installed" });
  palace.become({ kind: "ready", version: "0.1.0", dataDirectory: "/data" });
  assert.deepEqual([bar.text, bar.backgroundColor], ["$(history) Palace", undefined]);
  await settled();
  assert.deepEqual([bar.text, bar.backgroundColor?.id], ["$(history) 5 · vectors off: model not installed", "statusBarItem.warningBackground"]);
  assert.equal(bar.tooltip?.isTrusted, false);
});

test("the setting hides the bar and brings it back at once", async () => {
  const bar = await start();
  const told = { affectsConfiguration: (section: string): boolean => section === "palace.statusBar" };
  editor.settings.set("palace.statusBar", false);
  editor.configurationChanged.fire(told);
  assert.equal(bar.isVisible, false);
  palace.tell("palace/didChangeStatus", statusOf());
  assert.equal(bar.isVisible, false);
  editor.settings.set("palace.statusBar", true);
  editor.configurationChanged.fire(told);
  assert.equal(bar.isVisible, true);
});

test("Pause and Resume are told to the daemon and to the editor's menus, whoever paused", async () => {
  await start();
  assert.equal(editor.context.get("palace.isPaused"), false);
  await run("palace.pause");
  assert.equal(editor.context.get("palace.isPaused"), true);
  assert.match(editor.messages[0]?.text ?? "", /paused/);
  palace.tell("palace/didChangeStatus", statusOf());
  assert.equal(editor.context.get("palace.isPaused"), false);
  palace.tell("palace/didChangeStatus", statusOf({ embedding: { isPaused: true } }));
  assert.equal(editor.context.get("palace.isPaused"), true);
});

test("a first run that lasts is shown once, goes on where it was, and ends by itself", async () => {
  palace.handlers["palace/status"] = () => statusOf({ exchanges: 0, sourcesPending: 100 });
  await start();
  pass(9_999);
  assert.equal(window.progress.length, 0);
  pass(1);
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 40, sourcesPending: 60 })); // before the editor shows it
  await settled();
  assert.equal(window.progress.length, 1);
  const [shown] = window.progress;
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 60, vectors: 30, vectorsPending: 70 }));
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 60, vectors: 50, vectorsPending: 50 }));
  assert.deepEqual(shown?.reports.map((one) => one.increment), [40, 0, 10]);
  assert.match(shown.reports[0]?.message ?? "", /40 of 100 files/);
  palace.tell("palace/didChangeStatus", statusOf());
  await settled();
  assert.ok(shown.isOver);
  assert.equal(window.progress.length, 1);
});

test("cancelling a first run pauses mining and says so, with the way back", async () => {
  palace.handlers["palace/status"] = () => statusOf({ exchanges: 0, sourcesPending: 100 });
  await start();
  pass(10_000);
  await settled();
  editor.answers.push("Resume");
  window.progress[0]?.cancel();
  await settled();
  assert.ok(window.progress[0]?.isOver);
  assert.match(editor.messages[0]?.text ?? "", /mining is paused.*Recall finds/);
  assert.deepEqual(palace.asked.map((one) => one.method), ["palace/status", "palace/pause", "palace/resume"]);
});

test("a daemon that goes away takes the notification with it", async () => {
  palace.handlers["palace/status"] = () => statusOf({ exchanges: 0, sourcesPending: 100 });
  await start();
  pass(10_000);
  await settled();
  palace.become({ kind: "waiting", retryInMs: 100, reason: "it ended" });
  await settled();
  assert.ok(window.progress[0]?.isOver);
});

test("Mine Now shows progress that never runs back, and sums up", async () => {
  palace.handlers["palace/mine"] = (params, { onProgress }) => {
    assert.deepEqual(params, { wait: true });
    onProgress?.({ kind: "begin", title: "Mining" });
    onProgress?.({ kind: "report", stage: "mine", percentage: 50, done: 5, total: 10, unit: "files", etaS: 61 });
    onProgress?.({ kind: "report", stage: "embed", percentage: 10, done: 1, total: 10, unit: "texts" });
    onProgress?.({ kind: "report", stage: "embed", percentage: 80, done: 8, total: 10, unit: "texts" });
    onProgress?.({ kind: "end" });
    return mineOf({ files: 10, exchangesAdded: 12 });
  };
  await start();
  await run("palace.mineNow");
  assert.deepEqual(window.progress[0]?.reports, [
    { message: "reading transcripts: 5 of 10 files, about 1 min left", increment: 50 },
    { message: "computing vectors: 1 of 10 texts", increment: 0 },
    { message: "computing vectors: 8 of 10 texts", increment: 30 },
  ]);
  assert.deepEqual(editor.messages.map((one) => one.text), ["Palace looked at 10 files in 1 s: 12 exchanges added."]);
});

test("cancelling Mine Now withdraws the request, pauses, and complains of nothing", async () => {
  palace.handlers["palace/mine"] = (_params, { signal }) =>
    new Promise((_resolve, reject) => {
      signal?.addEventListener("abort", () => {
        reject(new PalaceError("the request was withdrawn", "cancelled"));
      });
    });
  await start();
  const mining = run("palace.mineNow");
  await settled();
  window.progress[0]?.cancel();
  await mining;
  await settled();
  assert.deepEqual(palace.asked.map((one) => one.method), ["palace/status", "palace/mine", "palace/pause"]);
  assert.deepEqual(editor.messages.map((one) => one.kind), ["information"]);
});

test("Mine Now while paused asks whether to resume, and does nothing otherwise", async () => {
  palace.handlers["palace/status"] = () => statusOf({ embedding: { isPaused: true } });
  palace.handlers["palace/mine"] = () => mineOf({});
  await start();
  await run("palace.mineNow");
  assert.deepEqual(palace.asked.map((one) => one.method), ["palace/status"]);
  editor.answers.push("Resume and Mine");
  await run("palace.mineNow");
  assert.deepEqual(palace.asked.map((one) => one.method).slice(1), ["palace/resume", "palace/mine"]);
});

test("Show Status lists everything, follows the daemon, and its first row opens the whole as a document", async () => {
  await start();
  const shown = run("palace.showStatus");
  await shown;
  assert.deepEqual(editor.quickPick.labels.slice(0, 6), [
    "$(open-preview) Open as a Document",
    "$(sync) Mine Now",
    "$(debug-pause) Pause Mining",
    "$(plug) Connect an Agent…",
    "$(debug-restart) Restart Daemon",
    "$(output) Show Logs",
  ]);
  assert.match(editor.quickPick.row("Exchanges").description ?? "", /4,310/);
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 9, embedding: { isPaused: true } }));
  assert.match(editor.quickPick.row("Exchanges").description ?? "", /^9,/);
  editor.quickPick.row("$(play) Resume Mining");
  editor.quickPick.accept("$(open-preview) Open as a Document");
  await settled();
  assert.equal(editor.ran[0]?.command, "markdown.showPreview");
  const provider = editor.contentProviders.get("palace-status") as { provideTextDocumentContent(): string };
  assert.match(provider.provideTextDocumentContent(), /^# Palace: status\n[^]*\| Exchanges \| 9,/);
});

test("Show Status without a daemon says why and offers what brings one", async () => {
  palace.state = { kind: "missing", reason: "no Python has the package", hint: "install it" };
  await start();
  await run("palace.showStatus");
  assert.deepEqual(editor.quickPick.labels, ["$(info) no Python has the package", "$(cloud-download) Install the Daemon…", "$(debug-restart) Restart Daemon", "$(output) Show Logs"]);
  assert.deepEqual(palace.asked, []);
});
