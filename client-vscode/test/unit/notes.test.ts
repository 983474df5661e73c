import "./support/fakeVscode";

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { editor, Selection, settled, Uri } from "./support/fakeVscode";
import { allBut, FakePalace, partsOf, window } from "./support/fakeWindow";
import { forgetOf, sessionOf } from "./support/told";
import { tagRows, tagsOf } from "../../src/core/noteTags";
import type { ForgetParams, RememberParams, WireNote } from "../../src/core/protocol";
import { registerNotes } from "../../src/ui/notes";

const PROJECT = "/not/there/atlas";

let palace: FakePalace;
let ending: { dispose(): unknown } | undefined;

function noteOf(given: Partial<WireNote>): WireNote {
  return { noteId: "731be67649eca135", text: "x", project: "", tags: [], author: "", createdAt: null, editedAt: null, supersededBy: "", ...given };
}

beforeEach(() => {
  window.reset();
  palace = new FakePalace({
    "palace/remember": ({ text, project = "", tags = [] }) => ({ note: noteOf({ text, project, tags }), isNew: true }),
    "palace/notes": () => ({ notes: [noteOf({ tags: ["decision", "port"] }), noteOf({ tags: ["port"] })] }),
    "palace/forget": ({ dryRun = false, exchanges = ["e1", "e2", "e3"] }) => forgetOf(exchanges, { isDryRun: dryRun }),
    "palace/sessions": () => ({ sessions: [sessionOf({ sessionId: "s1", title: "Queue" })] }),
  });
  ending = registerNotes(partsOf(palace));
});
afterEach(() => {
  ending?.dispose();
});

function run(command: string, given?: unknown): unknown {
  const registered = editor.commands.get(command);
  assert.ok(registered, command);
  return registered(given);
}

function select(...texts: string[]): void {
  const selections = texts.map((_text, at) => new Selection(at, 0, at, 5));
  editor.activeTextEditor = { selections, document: { uri: Uri.file("/a.md"), getText: (one: Selection) => texts[one.start.line] } };
}

/** Answers the tags' pick with Enter once it is there. */
async function withTags(choose: () => void): Promise<void> {
  const done = run("palace.rememberSelection");
  await settled();
  choose();
  await done;
}

function remembered(): RememberParams {
  return palace.paramsOf("palace/remember")[0] as RememberParams;
}

test("a selection of several lines is remembered whole, with its project and the caller's clock", async () => {
  const text = "  The tile server\n\n\tmoved to 8094.  ";
  select(text);
  editor.workspaceFolders = [{ uri: Uri.file(PROJECT) }];
  editor.answers.push("$(root-folder) This project: atlas");
  await withTags(() => {
    editor.quickPick.accept();
  });
  assert.equal(remembered().text, text);
  assert.equal(remembered().project, PROJECT);
  assert.match(String(remembered().now), /T\d\d:\d\d:\d\d[+-]\d\d:\d\d$/);
  assert.match(window.picks[0]?.placeHolder ?? "", /“The tile server”, 3 lines in all/);
  assert.match(editor.messages[0]?.text ?? "", /Palace remembers it in atlas: “The tile server”/);
});

test("several selections are remembered as one text; without a project none is named", async () => {
  select("first", "second");
  editor.answers.push("$(globe) No project");
  await withTags(() => {
    editor.quickPick.selectedItems = [];
    editor.quickPick.type("#port, new one");
    assert.deepEqual(editor.quickPick.labels, ["new one", "decision", "port"]);
    const pick = editor.quickPick;
    pick.selectedItems = pick.items.filter((one) => one.label !== "port");
    pick.type("new one,");
    assert.deepEqual(pick.selectedItems.map((one) => one.label), ["new one", "decision"]);
    editor.quickPick.acceptAsIs();
  });
  assert.equal(remembered().text, "first\nsecond");
  assert.deepEqual(remembered().tags, ["new one", "decision"]);
  assert.ok(!("project" in remembered()));
});

test("with nothing selected the text is asked for, and leaving at any step keeps nothing", async () => {
  await run("palace.rememberSelection");
  editor.answers.push("a note");
  await run("palace.rememberSelection");
  editor.answers.push("a note", "$(globe) No project");
  await withTags(() => {
    editor.quickPick.hide();
  });
  assert.deepEqual(palace.paramsOf("palace/remember"), []);
});

test("what was selected makes no link in the message that it is remembered", async () => {
  select("see [this](command:workbench.action.quit)");
  editor.answers.push("$(globe) No project");
  await withTags(() => {
    editor.quickPick.acceptAsIs();
  });
  assert.doesNotMatch(editor.messages[0]?.text ?? "", /\]\(/);
});

test("of one exchange that is to go the last question says where and when it was", async () => {
  await run("palace.forgetItem", { exchangeId: "e1" });
  assert.match(editor.messages[0]?.detail ?? "", /^Claude Code · atlas · Mar 4, 2026/);
});

test("a tag that reads like an icon is shown as it is, and kept as it is", async () => {
  palace.handlers["palace/notes"] = () => ({ notes: [noteOf({ tags: ["$(trash)"] })] });
  editor.answers.push("a note", "$(globe) No project");
  await withTags(() => {
    const [shown] = editor.quickPick.items;
    assert.ok(shown && !shown.label.includes("$("));
    editor.quickPick.selectedItems = [shown];
    editor.quickPick.acceptAsIs();
  });
  assert.deepEqual(remembered().tags, ["$(trash)"]);
});

test("a note that was there already is told so, and can be opened", async () => {
  palace.handlers["palace/remember"] = ({ text }) => ({ note: noteOf({ text }), isNew: false });
  editor.answers.push("a note", "$(globe) No project", "Open");
  await withTags(() => {
    editor.quickPick.acceptAsIs();
  });
  assert.match(editor.messages[0]?.text ?? "", /already/);
  assert.deepEqual(editor.ran, [{ command: "palace.openExchange", given: [{ exchangeId: "731be67649eca135" }] }]);
});

test("tags are read between commas, and what is typed is offered before what is in use", () => {
  assert.deepEqual(tagsOf(" #port, two words ,, port"), ["port", "two words"]);
  assert.deepEqual(tagRows(["a", "b"], ["b"], "b, c"), [
    { tag: "c", isTyped: true },
    { tag: "b", isTyped: false },
    { tag: "a", isTyped: false },
  ]);
});

test("forgetting what a question finds lists it, lets some stay, asks once more, and forgets by id", async () => {
  editor.answers.push("$(search) What a question finds…", "  the password ", allBut("Title of e2"), "Forget");
  await run("palace.forget");
  assert.deepEqual(palace.paramsOf("palace/forget"), [{ query: "the password", limit: 10, dryRun: true }, { exchanges: ["e1", "e3"] }] satisfies ForgetParams[]);
  assert.match(window.picks[1]?.title ?? "", /would forget 3 exchanges/);
  const [question, done] = editor.messages;
  assert.equal(question?.text, "Forget 2 exchanges for good?");
  assert.match(question.detail ?? "", /• Title of e1\n• Title of e3\n\n.*cannot be brought back/);
  assert.deepEqual([done?.kind, done?.text], ["information", "Palace forgot 2 exchanges."]);
  assert.deepEqual(editor.ran, [{ command: "palace.refreshSessions", given: [] }]);
});

test("nothing is forgotten where the list or the last question is left", async () => {
  const left: unknown[][] = [[], [allBut("Title of e1", "Title of e2", "Title of e3")], [allBut(), undefined]];
  for (const answers of left) {
    editor.answers.length = 0;
    editor.answers.push(...answers);
    await run("palace.forgetItem", { sessionId: "s1" });
  }
  assert.deepEqual(palace.paramsOf("palace/forget"), left.map(() => ({ sessions: ["s1"], dryRun: true })));
});

test("a list that the daemon cut is forgotten by its selector, all or nothing", async () => {
  palace.handlers["palace/forget"] = () => forgetOf(["e1"], { exchanges: 1_200 });
  editor.answers.push("$(trash) Forget all 1,200 exchanges…", "Forget");
  await run("palace.forgetItem", { project: "/a" });
  assert.deepEqual(palace.paramsOf("palace/forget"), [{ project: "/a", dryRun: true }, { project: "/a" }]);
  assert.match(editor.messages[0]?.detail ?? "", /and 1,199 others/);
  assert.equal(window.picks[0]?.title, "Palace would forget 1,200 exchanges; the first 1 are listed");
});

test("one exchange is named in the last question, from the tree or from its document", async () => {
  for (const given of [{ exchangeId: "e7" }, Uri.from({ scheme: "palace-exchange", path: "/Queue.md", query: "id=e7" })]) {
    editor.answers.push("Forget");
    await run("palace.forgetItem", given);
  }
  assert.deepEqual(palace.paramsOf("palace/forget"), [1, 2].flatMap(() => [{ exchanges: ["e7"], dryRun: true }, { exchanges: ["e7"] }]));
  assert.equal(editor.messages[0]?.text, "Forget “Title of e7” for good?");
});

test("the document in front is forgotten without an argument, and no other document is", async () => {
  editor.activeTextEditor = { document: { uri: Uri.parse("palace-exchange:/Queue.md?id=e9") } };
  await run("palace.forgetItem");
  assert.deepEqual(palace.paramsOf("palace/forget"), [{ exchanges: ["e9"], dryRun: true }]);
  editor.activeTextEditor = { document: { uri: Uri.file("/e9") } };
  await run("palace.forgetItem");
  assert.equal(palace.paramsOf("palace/forget").length, 1);
  assert.match(editor.messages.at(-1)?.text ?? "", /nothing is chosen/);
});

test("a tree element of no project selects nothing", async () => {
  await run("palace.forgetItem", { kind: "project", project: "" });
  assert.deepEqual(palace.asked, []);
});

test("nothing that matches is told so", async () => {
  palace.handlers["palace/forget"] = () => forgetOf([]);
  editor.answers.push("$(search) What a question finds…", "x");
  await run("palace.forget");
  assert.match(editor.messages[0]?.text ?? "", /nothing was forgotten/);
});

test("what still stands on the disk, and what is still to be read, is told after forgetting", async () => {
  palace.handlers["palace/forget"] = ({ dryRun = false }) => forgetOf(["e1"], dryRun ? {} : { wipeDue: "another process reads the file", sourcesPending: 3 });
  editor.answers.push("Forget");
  await run("palace.forgetItem", { exchangeId: "e1" });
  assert.equal(editor.messages[1]?.kind, "warning");
  assert.match(editor.messages[1].text, /bytes of it still stand in the database file \(another process reads the file\).*3 files are still to be read/);
});

test("a session is chosen by its title", async () => {
  editor.answers.push("$(comment-discussion) A session…", "Queue");
  await run("palace.forget");
  assert.deepEqual(palace.paramsOf("palace/forget"), [{ sessions: ["s1"], dryRun: true }]);
});
