import assert from "node:assert/strict";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import test, { beforeEach } from "node:test";

import { api, editor, settled, type Range, Uri } from "./support/fakeVscode";
import { PalaceError } from "../../src/core/errors";
import { ExchangeDocuments, registerExchanges } from "../../src/ui/exchanges";
import { FakePalace, partsWith } from "./support/fakePalace";
import { exchangeOf } from "./support/told";

interface Provider {
  onDidChange(listener: (uri: Uri) => void): void;
  provideTextDocumentContent(uri: Uri): Promise<string>;
  provideDocumentLinks(document: { uri: Uri }): { range: Range; target: Uri }[];
}

const ID = "a95c9b48131d7e5f";
let palace: FakePalace;
let registered: { dispose(): unknown };
let documents: ExchangeDocuments;

beforeEach(() => {
  editor.reset();
  palace = new FakePalace();
  documents = new ExchangeDocuments(partsWith(palace));
  registered = registerExchanges(partsWith(palace));
});

const provider = () => documents as unknown as Provider;
const uri = Uri.from({ scheme: "palace-exchange", path: "/Which port.md", query: `id=${ID}` });
const place = (file: string, isOwner = true) => ({ path: file, lineStart: 3, lineEnd: 11, byteStart: 0, byteEnd: 9, isOwner });
const run = async (command: string, argument?: unknown) => {
  await api.commands.executeCommand(command, argument);
  await settled();
};
const knows = (changes: Parameters<typeof exchangeOf>[0]) => {
  palace.answers.set("palace/get", () => exchangeOf(changes));
};

function withFile(name: string, bytes: number, run: (file: string) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(path.join(tmpdir(), "palace-exchanges-"));
  const file = path.join(directory, name);
  writeFileSync(file, "");
  truncateSync(file, bytes); // a hole: takes no space
  return run(file).finally(() => {
    rmSync(directory, { recursive: true });
  });
}

test("an exchange opens under the name of its question", async () => {
  knows({ exchangeId: ID, userText: "Why a/b?" });
  await run("palace.openExchange", { exchangeId: ID });
  const [shown] = editor.shown;
  assert.equal((shown?.target as { uri: Uri }).uri.path, "/Why a b.md");
  assert.equal((shown?.target as { uri: Uri }).uri.query, `id=${ID}`);
});

test("its document has the exchange with its neighbours, and links that are commands", async () => {
  knows({ exchangeId: ID, provenance: [place("/t/a.jsonl")], neighbours: [{ exchangeId: "b1", relation: 1, startedAt: null, userText: "Next", replyText: "" }] });
  const text = await provider().provideTextDocumentContent(uri);
  assert.match(text, /Which port\?/);
  assert.equal(palace.asked("palace/get")[0]?.params.neighbours, 2);
  const links = provider().provideDocumentLinks({ uri });
  const targets = links.map((one) => [one.target.path, JSON.parse(one.target.query) as unknown]);
  assert.deepEqual(targets, [
    ["palace.openTranscript", [{ exchangeId: ID, place: 0 }]],
    ["palace.openExchange", [{ exchangeId: "b1" }]],
  ]);
});

test("a document whose exchange was forgotten says so, and an open one says it after the next change", async () => {
  knows({ exchangeId: ID });
  await provider().provideTextDocumentContent(uri);
  editor.textDocuments.push({ uri, getText: () => "" });
  const changed: string[] = [];
  provider().onDidChange((one) => changed.push(one.query));
  palace.tell("palace/didMine", {});
  await settled();
  assert.deepEqual(changed, [], "nothing changed");
  palace.answers.set("palace/get", () => {
    throw new PalaceError("no exchange has this id", "notFound");
  });
  palace.tell("palace/didMine", {});
  await settled();
  assert.deepEqual(changed, [`id=${ID}`]);
  assert.match(await provider().provideTextDocumentContent(uri), /^# Forgotten/);
});

test("what cannot be asked now stays as it was; what never was shown fills itself when the daemon is ready", async () => {
  const fails = () => {
    throw new PalaceError("the daemon went away", "disconnected");
  };
  palace.answers.set("palace/get", fails);
  assert.match(await provider().provideTextDocumentContent(uri), /The daemon went away\. This page fills itself/);
  editor.textDocuments.push({ uri, getText: () => "" });
  const changed: Uri[] = [];
  provider().onDidChange((one) => changed.push(one));
  knows({ exchangeId: ID });
  palace.become({ kind: "ready", version: "1", dataDirectory: "/d" });
  await settled();
  assert.equal(changed.length, 1);
  await provider().provideTextDocumentContent(uri);
  palace.answers.set("palace/get", fails);
  palace.tell("palace/didMine", {});
  await settled();
  assert.equal(changed.length, 1);
});

test("the transcript opens at the exchange's first line, and nothing in it is selected", async () => {
  await withFile("a.jsonl", 1_000, async (file) => {
    knows({ provenance: [place(file)] });
    await run("palace.openTranscript", { exchangeId: ID });
    const [ran] = editor.ran;
    assert.equal(ran?.command, "vscode.open");
    const [target, options] = ran.given as [Uri, { selection: Range }];
    assert.equal(target.fsPath, file);
    assert.equal(options.selection.start.line, 2);
    assert.equal(options.selection.isEmpty, true);
  });
});

test("of several places the one that is still there opens, and a link opens its own", async () => {
  await withFile("b.jsonl", 10, async (file) => {
    knows({ provenance: [place("/gone/a.jsonl"), place(file, false)] });
    await run("palace.openTranscript", { exchangeId: ID });
    assert.equal((editor.ran[0]?.given[0] as Uri).fsPath, file);
    await run("palace.openTranscript", { exchangeId: ID, place: 0 });
    assert.match(editor.messages[0]?.text ?? "", /The transcript is gone: \/gone\/a\.jsonl\. Palace keeps its text\./);
  });
});

test("a big transcript asks first, and can be revealed instead", async () => {
  await withFile("big.jsonl", 51 * 1024 * 1024, async (file) => {
    knows({ provenance: [place(file)] });
    await run("palace.openTranscript", { exchangeId: ID });
    assert.match(editor.messages[0]?.text ?? "", /big\.jsonl has 53\.5 MB/);
    assert.equal(editor.ran.length, 0);
    editor.answers.push("Reveal in Folder");
    await run("palace.openTranscript", { exchangeId: ID });
    editor.answers.push("Open Anyway");
    await run("palace.openTranscript", { exchangeId: ID });
    assert.deepEqual(editor.ran.map((one) => one.command), ["revealFileInOS", "vscode.open"]);
  });
});

test("a session in a database and a note have no lines to go to, and say so", async () => {
  await withFile("state.vscdb", 10, async (file) => {
    knows({ provenance: [place(file)] });
    await run("palace.openTranscript", { exchangeId: ID });
  });
  knows({ provenance: [place("palace:notes")] });
  await run("palace.openTranscript", { exchangeId: ID });
  assert.match(editor.messages[0]?.text ?? "", /database/);
  assert.match(editor.messages[1]?.text ?? "", /This is a note/);
  assert.equal(editor.ran.length, 0);
});

test("the commands take a row of a tree, a document's address, or the document in front", async () => {
  knows({ replyText: "the reply" });
  await run("palace.copyItem", { kind: "exchange", exchangeId: "one", told: {} });
  await run("palace.copyItem", Uri.from({ scheme: "palace-exchange", path: "/x.md", query: "id=two" }));
  editor.activeTextEditor = { document: { uri: Uri.from({ scheme: "palace-exchange", path: "/x.md", query: "id=three" }) } };
  await run("palace.copyItem");
  assert.deepEqual(palace.asked("palace/get").map((one) => one.params.id), ["one", "two", "three"]);
  assert.equal(editor.clipboard, "the reply");
  editor.activeTextEditor = { document: { uri: Uri.file("/home/kim/main.py") } };
  await run("palace.copyItem");
  assert.match(editor.messages[0]?.text ?? "", /^No exchange is open\./);
});

test("what cannot be read is told in words, a withdrawn request to nobody", async () => {
  for (const [kind, expected] of [["notFound", /forgotten/], ["storeBusy", /cannot be read\. Trouble\./]] as const) {
    palace.answers.set("palace/get", () => {
      throw new PalaceError("trouble", kind);
    });
    await run("palace.openExchange", { exchangeId: ID });
    assert.match(editor.messages.at(-1)?.text ?? "", expected);
  }
  palace.answers.set("palace/get", () => {
    throw new PalaceError("withdrawn", "cancelled");
  });
  await run("palace.openExchange", { exchangeId: ID });
  assert.equal(editor.messages.length, 2);
});

test("all of it ends with the extension", () => {
  documents.dispose();
  registered.dispose();
  assert.deepEqual([palace.listenerCount, editor.commands.size], [0, 0]);
});
