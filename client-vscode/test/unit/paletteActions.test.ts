import assert from "node:assert/strict";
import test from "node:test";

import { api, editor, settled } from "./support/fakeVscode";
import { answer } from "./support/answers";
import { editorInFront, lastRecall, more, named, open, opened, palace, recalls, typed } from "./support/openPalette";

test("copy puts the reply into the clipboard, and the list stays", async () => {
  await opened(named("Newest"));
  await more("Newest", "Copy the reply");
  assert.equal(editor.clipboard, "8093.");
  assert.equal(editor.quickPick.isVisible, true);
});

test("insert goes to the editor that was in front before", async () => {
  const front = editorInFront("");
  await opened(named("Newest"));
  editor.activeTextEditor = undefined;
  editor.quickPick.pressOn("Newest", "Insert the reply at the cursor");
  await settled();
  assert.deepEqual(front.inserted, ["8093."]);
  assert.deepEqual(editor.messages, []);
});

test("insert says why it does nothing, and offers to copy", async () => {
  editorInFront("", { isReadOnly: true });
  await opened(named("Newest"));
  editor.answers.push("Copy Instead");
  editor.quickPick.pressOn("Newest", "Insert the reply at the cursor");
  await settled();
  assert.match(editor.messages[0]?.text ?? "", /read-only.* Nothing was inserted\.$/);
  assert.equal(editor.clipboard, "8093.");
  editor.activeTextEditor = undefined;
  await opened(named("Newest"));
  editor.quickPick.pressOn("Newest", "Insert the reply at the cursor");
  await settled();
  assert.match(editor.messages[1]?.text ?? "", /^No editor was open\./);
});

test("a quotation is copied, and written into the chat where there is one", async () => {
  await opened(named("Newest"));
  editor.quickPick.pressOn("Newest", "Quote for a chat");
  await settled();
  assert.match(editor.clipboard, /^> Quoted from an earlier session: Claude Code in atlas/);
  assert.equal(editor.ran.length, 0);
  editor.builtIn.add("workbench.action.chat.open");
  await opened(named("Newest"));
  editor.quickPick.pressOn("Newest", "Quote for a chat");
  await settled();
  assert.deepEqual(editor.ran[0]?.given, [{ query: editor.clipboard, isPartialQuery: true }]);
});

test("more like this asks the exchange's text, leaves out its own row, and the way back is a button", async () => {
  await opened(named("Newest"), named("Older"));
  await typed("redis");
  lastRecall().answer(answer([named("Newest")]));
  await settled();
  await more("Newest", "More like this");
  assert.equal(lastRecall().params.query, "Newest\n\nBecause.");
  assert.equal(editor.quickPick.value, "");
  assert.equal(editor.quickPick.title, "More like “Newest” in all projects", "it tells nothing of the question before");
  lastRecall().answer(answer([named("Newest"), named("Other")]));
  await settled();
  assert.deepEqual(editor.quickPick.labels, ["Other"]);
  editor.quickPick.press("Back");
  assert.equal(lastRecall().params.query, "redis");
  assert.equal(editor.quickPick.value, "redis");
});

test("typing ends more like this", async () => {
  await opened(named("Newest"));
  await more("Newest", "More like this");
  await typed("queue");
  assert.equal(lastRecall().params.query, "queue");
  assert.match(editor.quickPick.title ?? "", /^Recall in all projects/);
});

test("forget is the command's business; the list comes back and is asked anew", async () => {
  const given: unknown[] = [];
  api.commands.registerCommand("palace.forgetItem", (argument) => given.push(argument));
  await opened(named("Newest"));
  await more("Newest", "Forget…");
  assert.deepEqual(given, [{ exchangeId: "Newest" }]);
  assert.equal(recalls().length, 2);
  assert.equal(editor.quickPick.isVisible, true);
});

test("the scores come back to the same row", async () => {
  await opened(named("Newest"), named("Older"));
  await more("Older", "Why it stands here");
  assert.equal(editor.quickPicks.length, 2);
  assert.equal(editor.quickPick.isVisible, true);
  assert.deepEqual(editor.quickPick.activeItems.map((one) => one.label), ["Older"]);
  assert.equal(recalls().length, 1);
});

test("a row has few buttons, and leaving what the last of them offers changes nothing", async () => {
  await opened(named("Newest"), named("Older"));
  assert.equal(editor.quickPick.row("Older").buttons?.length, 4);
  editor.quickPick.pressOn("Older", "More actions…");
  await settled();
  assert.deepEqual([editor.quickPick.isVisible, editor.quickPick.labels, recalls().length], [true, ["Newest", "Older"], 1]);
  assert.deepEqual(editor.quickPick.activeItems.map((one) => one.label), ["Older"]);
});

test("the key for actions offers everything that can be done with the chosen row, while the palette is open", async () => {
  assert.equal(editor.context.get("palace.isRecallOpen"), undefined);
  const front = editorInFront("");
  await opened(named("Newest"), named("Older"));
  assert.equal(editor.context.get("palace.isRecallOpen"), true);
  editor.quickPick.activeItems = [editor.quickPick.row("Older")];
  editor.answers.push("Insert the reply at the cursor");
  await api.commands.executeCommand("palace.recallActions");
  await settled();
  assert.deepEqual([front.inserted, palace.asked("palace/get").map((one) => one.params.id)], [["8093."], ["Older"]]);
  assert.deepEqual([editor.quickPick.isDisposed, editor.context.get("palace.isRecallOpen")], [true, false]);
  await api.commands.executeCommand("palace.recallActions");
  assert.equal(palace.listenerCount, 0);
});

test("filters that were typed go on in more like this; searching everything drops them", async () => {
  await open("palace.recall", { query: "redis agent:codex project:atlas" });
  lastRecall().answer(answer([named("Newest")]));
  await settled();
  await more("Newest", "More like this");
  assert.deepEqual([lastRecall().params.agent, lastRecall().params.project], ["codex", "atlas"]);
  assert.match(editor.quickPick.title ?? "", /^More like “Newest” in atlas · Codex/);
  lastRecall().answer(answer([named("Newest")], { projectsNear: ["/home/kim/atlas"] }));
  await settled();
  editor.quickPick.accept("Search in atlas");
  assert.deepEqual([lastRecall().params.project, lastRecall().params.query], ["/home/kim/atlas", "Newest\n\nBecause."]);
  lastRecall().answer(answer([]));
  await settled();
  editor.quickPick.accept("Search everything");
  assert.deepEqual([lastRecall().params.agent, lastRecall().params.project, lastRecall().params.query], [undefined, undefined, "Newest\n\nBecause."]);
});

test("a note has no button to a transcript", async () => {
  await opened(named("Remember", { agent: "note" }));
  assert.throws(() => { editor.quickPick.pressOn("Remember", /transcript/); }, /no button/);
});

test("the transcript's button reads the exchange's places and ends the palette", async () => {
  await opened(named("Newest"));
  editor.quickPick.pressOn("Newest", /transcript/);
  await settled();
  assert.equal(editor.quickPick.isDisposed, true);
  assert.deepEqual(palace.asked("palace/get").map((one) => one.params.id), ["Newest"]);
});
