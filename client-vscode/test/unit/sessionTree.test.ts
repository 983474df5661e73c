import assert from "node:assert/strict";
import { test } from "node:test";

import type { WireExchange, WireProject, WireSession } from "../../src/core/protocol";
import { exchangeNodes, look, preview, projectNodes, sessionNodes, type TreeNode } from "../../src/core/sessionTree";
import { exchangeOf, projectOf, sessionOf } from "./support/told";

const NOW = new Date(2026, 2, 10, 9);

function outline(nodes: readonly TreeNode[]): unknown[] {
  return nodes.map((node) => {
    if (node.kind === "session") return node.below.length > 0 ? [node.sessionId, ...outline(node.below)] : node.sessionId;
    return node.kind === "automated" ? { automated: outline(node.below) } : node.kind;
  });
}

test("the window's project stands first and open, the others in the daemon's order", () => {
  const told = ["/a", "/b", "", "/c"].map((path): WireProject => projectOf({ path }));
  const nodes = projectNodes(told, ["/c"]);
  assert.deepEqual(nodes.map((one) => one.project), ["/c", "/a", "/b", ""]);
  assert.deepEqual(nodes.map((one) => look(one, NOW).shape), ["expanded", "collapsed", "collapsed", "collapsed"]);
  assert.equal(look(nodes[0] as TreeNode, NOW).description, "1 session · this window");
});

test("what belongs to no project is named so and offers no forgetting", () => {
  const seen = look(projectNodes([projectOf({ path: "", name: "" })], [""])[0] as TreeNode, NOW);
  assert.deepEqual([seen.label, seen.shape, seen.contextValue], ["No project", "collapsed", "unfiled"]);
  assert.ok(!/exchange|session|project/.test(seen.contextValue), "package.json's menus do not match");
});

test("projects of one name are told apart by the directory above", () => {
  const nodes = projectNodes([projectOf({ path: "/x/app" }), projectOf({ path: "/y/app" }), projectOf({ path: "/y/web" })], []);
  assert.deepEqual(nodes.map((one) => look(one, NOW).label), ["x/app", "y/app", "web"]);
});

test("sub-agents lie below their session, what was automated behind one node at the end", () => {
  const told: WireSession[] = [
    sessionOf({ sessionId: "exec", isAutomated: true }),
    sessionOf({ sessionId: "child", relation: "subagent", parentSessionId: "asked", isAutomated: true }),
    sessionOf({ sessionId: "asked" }),
    sessionOf({ sessionId: "orphan", relation: "subagent", parentSessionId: "gone" }),
    sessionOf({ sessionId: "fork", relation: "fork", parentSessionId: "asked" }),
    sessionOf({ sessionId: "grandchild", relation: "subagent", parentSessionId: "child" }),
  ];
  assert.deepEqual(outline(sessionNodes(told, "/a")), [["asked", ["child", "grandchild"]], "fork", { automated: ["exec", "orphan"] }]);
});

test("sessions that name each other as parent are listed once and end", () => {
  const told = [
    sessionOf({ sessionId: "one", relation: "subagent", parentSessionId: "other" }),
    sessionOf({ sessionId: "other", relation: "subagent", parentSessionId: "one" }),
    sessionOf({ sessionId: "self", relation: "subagent", parentSessionId: "self" }),
  ];
  assert.deepEqual(outline(sessionNodes(told, "")), [{ automated: ["self", ["one", "other"]] }]);
});

test("a session without sub-agents or automation makes no node for them", () => {
  assert.deepEqual(outline(sessionNodes([sessionOf({ sessionId: "one" })], "")), ["one"]);
});

test("every node has its own id, which does not change with what is told of it", () => {
  const nodes = (exchanges: number): TreeNode[] => [
    ...projectNodes([projectOf({ path: "/a", exchanges })], []),
    ...sessionNodes([sessionOf({ sessionId: "/a", exchanges }), sessionOf({ sessionId: "x", isAutomated: true, exchanges })], "/a"),
    ...exchangeNodes([exchangeOf({ exchangeId: "/a" })], "/a"),
    { kind: "more", of: undefined },
    { kind: "more", of: "/a" },
  ];
  const ids = nodes(1).map((one) => look(one, NOW).id);
  assert.equal(new Set(ids).size, ids.length);
  assert.deepEqual(nodes(7).map((one) => look(one, NOW).id), ids);
});

test("a session shows title, age, agent and how it came about", () => {
  const told = sessionOf({ title: "", relation: "fork", endedAt: new Date(2026, 2, 9, 20).toISOString(), exchanges: 3 });
  const seen = look(sessionNodes([told], "")[0] as TreeNode, NOW);
  assert.deepEqual([seen.label, seen.description, seen.contextValue], ["(no words)", "yesterday · fork", "session"]);
  assert.match(seen.tooltip, /Claude Code.*3 exchanges.*fork/s);
});

test("an exchange shows its first line with words and its time", () => {
  const told = exchangeOf({ userText: "\n  Which port?\nmore", startedAt: new Date(2026, 2, 9, 14, 5).toISOString(), isSuperseded: true });
  const seen = look(exchangeNodes([told], "/a")[0] as TreeNode, NOW);
  assert.deepEqual([seen.label, seen.description, seen.shape], ["Which port?", "14:05 · taken back", "leaf"]);
  assert.equal(look(exchangeNodes([exchangeOf({ userText: "", replyText: "Done." })], "/a")[0] as TreeNode, NOW).label, "Done.");
});

test("a preview shows question and final reply as plain text, cut", () => {
  const replyText = "I look.\n\nIt is [8093](command:evil).";
  const told: WireExchange = exchangeOf({ userText: `Which <b>port</b>? ${"x".repeat(2_000)}`, replyText, replyFinalStart: 9 });
  const shown = preview(told);
  assert.ok(shown.includes("Which &lt;b\\>port"));
  assert.ok(shown.includes("It is \\[8093\\]"));
  assert.ok(!shown.includes("I look"), "only where the reply ends up");
  assert.ok(!shown.includes("](command"));
  assert.ok(shown.length < 1_200);
});
