import assert from "node:assert/strict";
import test, { mock } from "node:test";

import { api, editor, type FakeQuickPick, Selection, settled, Uri } from "./support/fakeVscode";
import { PalaceError } from "../../src/core/errors";
import { answer } from "./support/answers";
import { addresses, editorInFront, lastRecall, named, open, opened, palace, recalls, registered, typed } from "./support/openPalette";

test("opening asks at once for the newest of the scope, so that the list is never blank", async () => {
  await opened(named("Newest"), named("Older"));
  assert.equal(lastRecall().params.query, "");
  assert.deepEqual(editor.quickPick.labels, ["Newest", "Older"]);
  assert.equal(editor.quickPick.placeholder, "Search 8 exchanges of 2 projects");
  assert.equal(editor.quickPick.title, "Recall in all projects · 4,310 passages");
});

test("the daemon's order is kept: the editor is told not to sort, and no row can be filtered away", async () => {
  await opened(named("zebra"), named("apple"), named("Redis"));
  await typed("apple");
  lastRecall().answer(answer([named("zebra"), named("apple"), named("Redis")]));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["zebra", "apple", "Redis"]);
  assert.equal((editor.quickPick as unknown as { sortByLabel: boolean }).sortByLabel, false);
  assert(editor.quickPick.items.every((one) => one.kind === -1 || one.alwaysShow));
});

test("where the editor refuses not to sort, labels match nothing that is typed", async (context) => {
  const make = api.window.createQuickPick.bind(api.window);
  const refusing = (): FakeQuickPick =>
    Object.defineProperty(make(), "sortByLabel", {
      set: () => {
        throw new Error("a proposed API");
      },
    });
  api.window.createQuickPick = refusing;
  context.after(() => (api.window.createQuickPick = make));
  await opened(named("apple pie"));
  const [label] = editor.quickPick.labels;
  assert(label);
  assert.doesNotMatch(label, /apple|pie/);
  assert.equal(label.replaceAll("\u2060", ""), "apple pie");
});

test("typing waits for a pause, withdraws the question before, and drops its answer", async () => {
  await opened(named("Newest"));
  await typed("red");
  const first = lastRecall();
  editor.quickPick.type("redis");
  assert.equal(first.signal?.aborted, true);
  first.answer(answer([named("stale")]));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["Newest"]);
  assert.equal(recalls().length, 2);
  mock.timers.tick(120);
  lastRecall().answer(answer([named("fresh")]));
  await settled();
  assert.equal(lastRecall().params.query, "redis");
  assert.deepEqual(editor.quickPick.labels, ["fresh"]);
});

test("the list is busy from the first key to the answer", async () => {
  await opened(named("Newest"));
  const before = editor.quickPick.busyTold.length;
  editor.quickPick.type("r");
  editor.quickPick.type("re");
  mock.timers.tick(120);
  lastRecall().answer(answer([named("x")]));
  await settled();
  assert.deepEqual(editor.quickPick.busyTold.slice(before), [true, false]);
});

test("a failed search is one row with the way on, above the list as it was", async () => {
  await opened(named("Newest"));
  await typed("redis");
  lastRecall().fail(new PalaceError("the store is busy", "storeBusy", "wait a moment"));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["The search failed", "Newest"]);
  assert.match(editor.quickPick.row("The search failed").detail ?? "", /Wait a moment/);
  editor.quickPick.accept("The search failed");
  lastRecall().answer(answer([named("fine")]));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["fine"]);
});

test("a daemon that is not ready has its row, and the search goes on by itself", async () => {
  palace.state = { kind: "starting" };
  await open();
  assert.deepEqual(editor.quickPick.labels, ["Palace's daemon is starting"]);
  palace.become({ kind: "ready", version: "0.1.0", dataDirectory: "/d" });
  lastRecall().answer(answer([named("Newest")]));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["Newest"]);
});

test("a daemon that is missing can be installed from the row", async () => {
  palace.state = { kind: "missing", reason: "no Python has it", hint: "" };
  await open();
  lastRecall().fail(new PalaceError("no daemon is running", "notRunning"));
  await settled();
  editor.quickPick.accept("Install Palace's daemon…");
  await settled();
  assert.deepEqual(editor.ran.map((one) => one.command), ["palace.installDaemon"]);
});

test("a daemon that is lost while the list is open leaves the list, and comes back to it", async () => {
  await opened(named("Newest"));
  palace.become({ kind: "waiting", retryInMs: 500, reason: "it was killed" });
  assert.deepEqual(editor.quickPick.labels, ["Palace's daemon was lost and is being started again", "Newest"]);
  palace.become({ kind: "ready", version: "0.1.0", dataDirectory: "/d" });
  assert.equal(recalls().length, 2);
});

test("without a result there is a row that says so, and one that searches everything", async () => {
  await open("palace.recall", { query: "redis agent:codex project:atlas" });
  lastRecall().answer(answer([], { totals: { inScope: 0, matched: 0 } }));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["Nothing found in atlas · Codex", "Search everything"]);
  editor.quickPick.accept("Search everything");
  assert.equal(editor.quickPick.value, "redis");
  assert.deepEqual([lastRecall().params.query, lastRecall().params.agent, lastRecall().params.project], ["redis", undefined, undefined]);
});

test("a near project is filtered by when its row is chosen", async () => {
  await open("palace.recall", { query: "redis project:atla" });
  lastRecall().answer(answer([], { totals: { inScope: 0, matched: 0 }, projectsNear: ["/home/kim/my atlas"] }));
  await settled();
  editor.quickPick.accept("Search in my atlas");
  assert.equal(editor.quickPick.value, 'project:"/home/kim/my atlas" redis');
  assert.equal(lastRecall().params.project, "/home/kim/my atlas");
});

test("a filter that is being typed has a row, which is not the one that Enter takes", async () => {
  await opened(named("Newest"));
  await typed("redis agent:");
  assert.equal(lastRecall().params.query, "redis");
  lastRecall().answer(answer([named("found")]));
  await settled();
  assert.equal(editor.quickPick.labels.length, 2);
  assert.deepEqual(editor.quickPick.activeItems.map((one) => one.label), ["found"]);
});

test("Enter opens the exchange, and the palette ends: it withdraws what it asked and listens no more", async () => {
  await opened(named("Newest"), named("Older"));
  editor.quickPick.type("more");
  mock.timers.tick(120);
  editor.quickPick.accept("Older");
  await settled();
  assert.equal(lastRecall().method, "palace/recall");
  assert.equal(lastRecall().signal?.aborted, true);
  assert.equal(editor.quickPick.isDisposed, true);
  assert.equal(palace.listenerCount, 0);
  assert.deepEqual(addresses(), ["id=Older"]);
});

test("Enter before the answer waits for it, and opens the best of what was typed, not of what was there before", async () => {
  await opened(named("Newest"));
  editor.quickPick.type("redis");
  editor.quickPick.accept("Newest");
  await settled();
  assert.deepEqual([addresses(), editor.quickPick.isVisible], [[], true]);
  mock.timers.tick(120);
  lastRecall().answer(answer([named("found"), named("Newest")]));
  await settled();
  assert.deepEqual([addresses(), editor.quickPick.isDisposed], [["id=found"], true]);
});

test("Enter before the answer is forgotten where the person types on, or where nothing is found", async () => {
  await opened(named("Newest"));
  editor.quickPick.type("redi");
  editor.quickPick.accept("Newest");
  await typed("redis");
  lastRecall().answer(answer([named("found")]));
  await settled();
  editor.quickPick.type("nothing");
  editor.quickPick.accept("found");
  mock.timers.tick(120);
  const { freshness } = answer([]);
  lastRecall().answer(answer([], { freshness: { ...freshness, drawers: 0 } }));
  await settled();
  assert.deepEqual([addresses(), editor.ran, editor.quickPick.isVisible], [[], [], true]);
});

test("Escape ends the palette, too", async () => {
  await opened(named("Newest"));
  editor.quickPick.hide();
  assert.equal(palace.listenerCount, 0);
});

test("the scope's button searches this project and then everything, and is remembered for the window", async () => {
  editor.workspaceFolders = [{ uri: Uri.file("/nowhere/atlas") }];
  await opened(named("Newest"));
  editor.quickPick.press("Search only in atlas");
  assert.equal(lastRecall().params.project, "/nowhere/atlas");
  assert.match(editor.quickPick.title ?? "", /^Recall in atlas/);
  editor.quickPick.hide();
  await open();
  assert.equal(lastRecall().params.project, "/nowhere/atlas");
  editor.quickPick.press("Search all projects");
  assert.equal(lastRecall().params.project, undefined);
});

test("the agent's and the time's buttons choose from a list and come back with what was typed", async () => {
  await opened(named("Newest"));
  await typed("redis");
  editor.answers.push("Codex");
  editor.quickPick.press("Agent: all…");
  await settled();
  assert.deepEqual([lastRecall().params.agent, lastRecall().params.query], ["codex", "redis"]);
  assert.equal(editor.quickPick.value, "redis");
  assert.equal(editor.quickPick.isVisible, true);
  editor.answers.push("Last 7 days");
  editor.quickPick.press("Time: any time…");
  await settled();
  assert.match(String(lastRecall().params.since), /^\d{4}-\d\d-\d\d$/);
  assert.match(editor.quickPick.title ?? "", /^Recall in all projects · Codex · last 7 days/);
});

test("buttons are made anew only when what they do changes", async () => {
  await opened(named("Newest"));
  const before = editor.quickPick.buttons;
  await typed("redis");
  lastRecall().answer(answer([named("x")]));
  await settled();
  assert.equal(editor.quickPick.buttons, before);
});

test("what was typed last stands in the next palette", async () => {
  await opened(named("Newest"));
  await typed("redis");
  editor.quickPick.hide();
  await open();
  assert.equal(editor.quickPick.value, "redis");
  assert.equal(lastRecall().params.query, "redis");
});

test("the row that was chosen stays so when the daemon is lost and when a search fails", async () => {
  await opened(named("Newest"), named("Older"));
  editor.quickPick.activeItems = [editor.quickPick.row("Older")];
  palace.become({ kind: "waiting", retryInMs: 500, reason: "it was killed" });
  assert.deepEqual(editor.quickPick.activeItems.map((one) => one.label), ["Older"]);
});

test("without a folder the project's filter says that it does nothing", async () => {
  await open("palace.recall", { query: "redis in:project" });
  lastRecall().answer(answer([named("found")]));
  await settled();
  assert.match(editor.quickPick.labels[0] ?? "", /no folder is open/);
});

test("a very long selection is cut between characters, and the text of several cursors is asked once each", async () => {
  editorInFront(`${"x".repeat(19_999)}😀 and more`, { selection: new Selection(0, 0, 0, 9) });
  await open("palace.recallSelection");
  assert.equal(lastRecall().params.query, "x".repeat(19_999));
  const front = editorInFront("");
  const texts = ["redis", "queue", "redis", " "];
  Object.assign(front, { selections: texts.map((_text, line) => new Selection(line, 0, line, 1)) });
  Object.assign(front.document, { getText: (range: Selection) => texts[range.start.line] });
  await open("palace.recallSelection");
  assert.equal(lastRecall().params.query, "redis\nqueue");
});

test("a selected line goes into the input, a selected paragraph or a filter in it is asked as it is", async () => {
  const line = new Selection(0, 0, 0, 9);
  editorInFront("  queue out of redis ", { selection: line });
  await open("palace.recallSelection");
  assert.equal(editor.quickPick.value, "queue out of redis");
  assert.equal(lastRecall().params.query, "queue out of redis");
  for (const text of ["def f():\n    return 1", "x project:atlas"]) {
    editorInFront(text, { selection: line });
    await open("palace.recallSelection");
    assert.equal(editor.quickPick.value, "");
    assert.equal(lastRecall().params.query, text);
    assert.equal(lastRecall().params.project, undefined);
  }
});

test("with nothing selected the line at the cursor is asked, and without an editor it says what to do", async () => {
  editorInFront("why redis");
  await open("palace.recallSelection");
  assert.equal(lastRecall().params.query, "why redis");
  editor.activeTextEditor = undefined;
  await open("palace.recallSelection");
  assert.match(editor.messages[0]?.text ?? "", /^Nothing is selected\./);
});

test("Recall in This Project asks for the repository of the active editor's folder", async () => {
  editor.workspaceFolders = [{ uri: Uri.file("/nowhere/else") }, { uri: Uri.file("/home/kim/atlas") }];
  editorInFront("");
  await open("palace.recallInProject");
  assert.equal(lastRecall().params.project, "/home/kim/atlas");
  editor.workspaceFolders = undefined;
  editor.activeTextEditor = undefined;
  await open("palace.recallInProject");
  assert.match(editor.messages[0]?.text ?? "", /No folder is open/);
});

test("others can open it with a question, a scope and an agent; nonsense is left alone", async () => {
  editor.workspaceFolders = [{ uri: Uri.file("/nowhere/atlas") }];
  await open("palace.recall", { query: "redis", scope: "project", agent: "codex" });
  assert.deepEqual([lastRecall().params.query, lastRecall().params.project, lastRecall().params.agent], ["redis", "/nowhere/atlas", "codex"]);
  await open("palace.recall", { query: 7, scope: "moon" });
  assert.equal(lastRecall().params.project, undefined);
});

test("a second Recall takes the place of the first", async () => {
  await open();
  await open();
  assert.equal(editor.quickPicks[0]?.isDisposed, true);
  assert.equal(recalls()[0]?.signal?.aborted, true);
  registered?.dispose();
  assert.equal(palace.listenerCount, 0);
});
