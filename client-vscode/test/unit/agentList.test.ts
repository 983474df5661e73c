import assert from "node:assert/strict";
import { test } from "node:test";

import {
  ConnectCommand,
  differences,
  filesInWords,
  isNothing,
  nameOf,
  parsedAgents,
  parsedChanges,
  type RunWhole,
  stateInWords,
} from "../../src/core/agentList";
import { PalaceError } from "../../src/core/errors";

const LINE = ["/opt/python", "-m", "palace_daemon", "--data-dir", "/srv/palace"];
const LISTED = JSON.stringify({
  agents: [
    { agent: "claude", isFound: true, state: "connected", reason: "" },
    { agent: "codex", isFound: false, state: "unclear", reason: "cannot read config.toml" },
    { agent: "newcomer", isFound: true, state: "absent", reason: "", since: "a later version" },
  ],
});
const CHANGED = JSON.stringify({
  files: [
    { path: "/home/kim/.claude.json", change: "changed", diff: "--- a\n+++ b\n" },
    { path: "/home/kim/.claude/settings.json", change: "wrote", diff: "+++ c\n" },
    { path: "/etc/agents.json", change: "unchanged", diff: "" },
  ],
  advice: ["start a new session", 7],
});

/** Answers every command alike, and keeps what was run. */
function running(ended: { code?: number; stdout?: string; stderr?: string }): { run: RunWhole; ran: string[] } {
  const ran: string[] = [];
  const run: RunWhole = (command) => {
    ran.push(command.join(" "));
    return Promise.resolve({ code: ended.code ?? 0, stdout: ended.stdout ?? "", stderr: ended.stderr ?? "" });
  };
  return { run, ran };
}

test("the list of agents is taken as the command gives it, in its order", async () => {
  const { run, ran } = running({ stdout: LISTED });
  const agents = await new ConnectCommand(LINE, true, run).agents();
  assert.deepEqual(
    agents.map((one) => `${nameOf(one.agent)}: ${stateInWords(one)}`),
    ["Claude Code: connected", "Codex: cannot read config.toml", "newcomer: not connected"],
  );
  assert.deepEqual(ran, ["/opt/python -m palace_daemon --data-dir /srv/palace connect --list --json"]);
});

test("agents are told of a data directory only where one was chosen", async () => {
  const { run, ran } = running({ stdout: CHANGED });
  await new ConnectCommand(LINE, false, run).change("claude", { isRemoval: false, isDryRun: true });
  await new ConnectCommand(LINE, true, run).change("claude", { isRemoval: true, isDryRun: false });
  assert.deepEqual(ran, [
    "/opt/python -m palace_daemon connect claude --dry-run --json",
    "/opt/python -m palace_daemon --data-dir /srv/palace connect claude --remove --json",
  ]);
});

for (const [what, output] of [
  ["no JSON", "claude connected"],
  ["no object", "null"],
  ["no list", '{"agents": {}}'],
  ["a list of words", '{"agents": ["claude"]}'],
  ["a state that is not known", '{"agents": [{"agent": "x", "isFound": true, "state": "half", "reason": ""}]}'],
  ["no word on whether it is there", '{"agents": [{"agent": "x", "state": "absent", "reason": ""}]}'],
] as const) {
  test(`an answer that is ${what} is refused as that of another version`, () => {
    assert.throws(
      () => parsedAgents(output),
      (error) => error instanceof PalaceError && error.kind === "version",
    );
  });
}

test("changes are told file by file, below the home in short", () => {
  const changes = parsedChanges(CHANGED);
  assert.equal(
    filesInWords(changes, "/home/kim"),
    "Changed: ~/.claude.json\nNew: ~/.claude/settings.json\nAs it is: /etc/agents.json",
  );
  assert.equal(differences(changes), "--- a\n+++ b\n\n+++ c\n");
  assert.deepEqual(changes.advice, ["start a new session"]);
  assert.equal(isNothing(changes), false);
  assert.ok(isNothing({ ...changes, files: changes.files.slice(2) }));
  assert.throws(() => parsedChanges('{"files": [{"path": "x", "change": "eaten", "diff": ""}]}'), { kind: "version" });
});

test("what the command complains of is told without its own name", async () => {
  const { run } = running({ code: 2, stderr: "warning\npalace-daemon: cannot read ~/.claude.json: it holds no object (nothing was changed)\n" });
  await assert.rejects(new ConnectCommand(LINE, true, run).change("claude", { isRemoval: false, isDryRun: false }), {
    kind: "config",
    message: "cannot read ~/.claude.json: it holds no object (nothing was changed)",
  });
});

test("a command that is too old for the list says that", async () => {
  const { run } = running({ code: 2, stderr: "usage: …\npalace-daemon connect: error: unrecognized arguments: --list" });
  await assert.rejects(new ConnectCommand(LINE, true, run).agents(), { kind: "version" });
});

test("a program that cannot be run is an error in words", async () => {
  const connect = new ConnectCommand(["/nowhere/python", "-m", "palace_daemon"], true);
  await assert.rejects(connect.agents(), { kind: "notFound" });
});
