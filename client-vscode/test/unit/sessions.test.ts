import "./support/fakeVscode";

import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";

import { Disposable, editor, settled, Uri } from "./support/fakeVscode";
import { FakePalace, partsOf, window } from "./support/fakeWindow";
import { exchangeOf, mineOf, projectOf, sessionOf, statusOf } from "./support/told";
import { PalaceError } from "../../src/core/errors";
import type { WireSession } from "../../src/core/protocol";
import { look, type TreeNode } from "../../src/core/sessionTree";
import { registerRecentSessions, sessionItems } from "../../src/ui/recentSessions";
import { timeOfDay } from "../../src/core/wording";
import { registerSessions, type SessionTree } from "../../src/ui/sessions";
import { complain } from "../../src/ui/telling";
import { windowProjects } from "../../src/ui/windowProjects";

const SESSIONS: readonly WireSession[] = [
  sessionOf({ sessionId: "one", project: "/a" }),
  sessionOf({ sessionId: "two", project: "" }),
  sessionOf({ sessionId: "three", project: "/a", title: "Queue", startedAt: "2025-01-02T10:00:00.000Z", endedAt: null }),
  sessionOf({ sessionId: "four", project: "" }),
];

let palace: FakePalace;
let ending: { dispose(): unknown } | undefined;

beforeEach(() => {
  window.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  palace = new FakePalace({
    "palace/projects": () => ({ projects: [projectOf({ path: "/b" }), projectOf({ path: "", name: "" }), projectOf({ path: "/a" })] }),
    "palace/sessions": ({ sessionId, project, limit = 50, offset = 0 }) => {
      if (sessionId !== undefined) return { sessionId, exchanges: [exchangeOf({ exchangeId: "e1", sessionId }), exchangeOf({ exchangeId: "e2", sessionId, userText: "And then?" })] };
      return { sessions: SESSIONS.filter((one) => project === undefined || one.project === project).slice(offset, offset + limit) };
    },
  });
});
afterEach(() => {
  ending?.dispose();
  mock.timers.reset();
});

function start(sessionsLimit?: number): SessionTree {
  const parts = partsOf(palace, sessionsLimit);
  const [view, command] = [registerSessions(parts), registerRecentSessions(parts)];
  ending = Disposable.from(view, command);
  return window.views[0]?.options.treeDataProvider as SessionTree;
}

function labels(nodes: readonly TreeNode[]): string[] {
  return nodes.map((one) => look(one, new Date()).id);
}

async function child(tree: SessionTree, id: string, of?: TreeNode): Promise<TreeNode> {
  const found = (await tree.getChildren(of)).find((one) => look(one, new Date()).id === id);
  assert.ok(found, id);
  return found;
}

test("the tree asks for what is expanded, and for no more", async () => {
  editor.workspaceFolders = [{ uri: Uri.file("/a") }];
  const tree = start();
  assert.deepEqual(labels(await tree.getChildren()), ["project:/a", "project:/b", "project:"]);
  assert.deepEqual(palace.paramsOf("palace/sessions"), []);
  const sessions = await tree.getChildren(await child(tree, "project:/a"));
  assert.deepEqual(labels(sessions), ["session:/a:claude-code:one", "session:/a:claude-code:three"]);
  assert.deepEqual(palace.paramsOf("palace/sessions"), [{ project: "/a", limit: 201 }]);
  assert.deepEqual(labels(await tree.getChildren(sessions[0])), ["exchange:/a:one:e1", "exchange:/a:one:e2"]);
});

test("sessions of no project are found among all of them", async () => {
  const tree = start();
  assert.deepEqual(labels(await tree.getChildren(await child(tree, "project:"))), ["session::claude-code:two", "session::claude-code:four"]);
});

test("a project that only notes and single exchanges belong to says so", async () => {
  const tree = start();
  assert.deepEqual(labels(await tree.getChildren(await child(tree, "project:/b"))), ["empty:/b"]);
});

test("a list that is longer than the limit ends in More, which lists as many again", async () => {
  const tree = start(1);
  const project = await child(tree, "project:/a");
  const nodes = await tree.getChildren(project);
  assert.deepEqual(labels(nodes), ["session:/a:claude-code:one", "more:sessions:/a"]);
  let refreshed = 0;
  tree.onDidChangeTreeData(() => (refreshed += 1));
  assert.ok(nodes[1]);
  assert.equal(tree.getTreeItem(nodes[1]).command?.command, "palace.moreSessions");
  editor.commands.get("palace.moreSessions")?.(nodes[1]);
  assert.equal(refreshed, 1);
  assert.deepEqual(labels(await tree.getChildren(project)), ["session:/a:claude-code:one", "session:/a:claude-code:three"]);
});

test("clicking an exchange opens it, and its preview runs no command", async () => {
  const tree = start();
  const session = await child(tree, "session:/a:claude-code:one", await child(tree, "project:/a"));
  const exchange = await child(tree, "exchange:/a:one:e1", session);
  const item = tree.getTreeItem(exchange);
  assert.equal(item.command?.command, "palace.openExchange");
  assert.equal((item.command.arguments?.[0] as { exchangeId: string }).exchangeId, "e1");
  assert.equal(item.tooltip, undefined, "previews are made when they are looked at");
  const { tooltip } = tree.resolveTreeItem(item, exchange);
  assert.ok(typeof tooltip === "object");
  assert.equal(tooltip.isTrusted, false);
  assert.ok(tooltip.value.includes("Which port?"));
});

test("mining refreshes the tree once, a while after the first of several", () => {
  const tree = start();
  let refreshed = 0;
  tree.onDidChangeTreeData(() => (refreshed += 1));
  palace.tell("palace/didMine", mineOf({ exchangesAdded: 1 }));
  mock.timers.tick(1_500);
  palace.tell("palace/didMine", mineOf({ exchangesAdded: 1 }));
  assert.equal(refreshed, 0);
  mock.timers.tick(500);
  assert.equal(refreshed, 1);
  mock.timers.tick(10_000);
  assert.equal(refreshed, 1);
});

test("without a daemon nothing is asked, and the view says what happens", async () => {
  palace.state = { kind: "starting" };
  const tree = start();
  assert.deepEqual(await tree.getChildren(), []);
  assert.equal(window.views[0]?.message, "Looking for the daemon…");
  palace.become({ kind: "missing", reason: "", hint: "" });
  assert.equal(window.views[0].message, "", "the welcome text tells it");
  assert.deepEqual(palace.asked, []);
});

test("while an empty store is mined the view says so, and no more once there is something", async () => {
  let projects = [] as ReturnType<typeof projectOf>[];
  palace.handlers["palace/projects"] = () => ({ projects });
  const tree = start();
  await tree.getChildren();
  palace.tell("palace/didChangeStatus", statusOf({ exchanges: 0, sourcesPending: 9 }));
  assert.equal(window.views[0]?.message, "Reading transcripts…");
  projects = [projectOf({})];
  await tree.getChildren();
  assert.equal(window.views[0].message, "");
});

test("an answer that fails is told above the tree, and the next that comes takes that away", async () => {
  let error: Error | undefined;
  palace.handlers["palace/projects"] = () => {
    if (error) throw error;
    return { projects: [projectOf({})] };
  };
  const tree = start();
  assert.equal((await tree.getChildren()).length, 1);
  error = new PalaceError("the database is locked", "storeBusy", "try again");
  assert.deepEqual(labels(await tree.getChildren()), ["project:/home/kim/atlas"], "what was listed stays");
  assert.equal(window.views[0]?.message, "The database is locked. Try again.");
  error = undefined;
  await tree.getChildren();
  assert.equal(window.views[0].message, "");
});

test("a session that went through two projects stands below each, under two ids, and its exchanges too", async () => {
  palace.handlers["palace/sessions"] = ({ sessionId }) =>
    sessionId === undefined ? { sessions: [sessionOf({ sessionId: "one", project: "/a" })] } : { sessionId, exchanges: [exchangeOf({ exchangeId: "e1", sessionId })] };
  const tree = start();
  const ids: string[] = [];
  for (const project of ["project:/a", "project:/b"]) {
    const sessions = await tree.getChildren(await child(tree, project));
    ids.push(...labels(sessions), ...labels(await tree.getChildren(sessions[0])));
  }
  assert.equal(new Set(ids).size, 4, ids.join("; ")); // the editor refuses an id that is there twice, and shows an error in the place of the tree
});

test("where only a person can bring the daemon back, the list makes room for the text that says how", async () => {
  const tree = start();
  const listed = labels(await tree.getChildren());
  let refreshed = 0;
  tree.onDidChangeTreeData(() => (refreshed += 1));
  palace.become({ kind: "waiting", retryInMs: 500, reason: "it was killed" });
  assert.equal(refreshed, 0);
  assert.deepEqual(labels(await tree.getChildren()), listed, "it is on its way back: what was listed stays");
  palace.become({ kind: "failed", reason: "it crashed five times", hint: "" });
  assert.equal(refreshed, 1);
  assert.deepEqual(await tree.getChildren(), []);
});

test("two folders of one repository are one project of the window", () => {
  editor.workspaceFolders = [{ uri: Uri.file("/not/there/atlas") }, { uri: Uri.file("/not/there/atlas") }, { uri: Uri.file("/not/there/b") }];
  assert.deepEqual(windowProjects(), ["/not/there/atlas", "/not/there/b"]);
});

test("no name of a project or an agent becomes an icon in the list of recent sessions", () => {
  const [, item] = sessionItems([sessionOf({ title: "$(bug)", project: "/home/kim/$(trash)", agent: "$(flame)" })], new Date());
  assert.doesNotMatch(`${item?.label.slice(2)}${item?.detail}`, /\$\(/);
});

test("a message of the editor links nothing that an error tells", () => {
  complain(new PalaceError("cannot read /tmp/[x](command:workbench.action.quit)", "io"));
  assert.doesNotMatch(editor.messages[0]?.text ?? "", /\]\(/);
});

test("recent sessions are listed by day; Enter shows the exchanges of one, and Enter there opens it", async () => {
  start();
  editor.commands.get("palace.recentSessions")?.();
  await settled();
  const { items } = editor.quickPick;
  assert.deepEqual(items.map((one) => one.kind === -1), [true, false, false, true, false, true, false]);
  assert.deepEqual(items[4]?.label, "$(sparkle) Queue");
  assert.deepEqual([items[4].description, items[4].detail], [undefined, `a · ${timeOfDay("2025-01-02T10:00:00.000Z")} · Claude Code · 4 exchanges`]);
  assert.equal((editor.quickPick as unknown as { sortByLabel: boolean }).sortByLabel, false, "the editor keeps the order");
  editor.quickPick.accept("$(sparkle) Queue");
  await settled();
  assert.equal(editor.quickPick.title, "Queue");
  editor.quickPick.accept("And then?");
  assert.deepEqual(editor.ran, [{ command: "palace.openExchange", given: [{ exchangeId: "e2" }] }]);
});

test("a session's buttons open its last exchange and forget it", async () => {
  start();
  for (const button of ["Open the last exchange", "Forget…"]) {
    editor.commands.get("palace.recentSessions")?.();
    await settled();
    editor.quickPick.pressOn("$(sparkle) Queue", button);
    await settled();
    assert.ok(editor.quickPick.isDisposed);
  }
  assert.deepEqual(editor.ran, [
    { command: "palace.openExchange", given: [{ exchangeId: "e2" }] },
    { command: "palace.forgetItem", given: [{ sessionId: "three" }] },
  ]);
});
