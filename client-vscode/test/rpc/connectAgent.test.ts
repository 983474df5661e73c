import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { test } from "node:test";

import { ConnectCommand, differences, isNothing, nameOf } from "../../src/core/agentList";
import { Home } from "./support/home";

const SETTINGS = '{"model": "opus" /* mine */}\n';

test("an agent is listed, previewed, connected and disconnected by the real command, to the byte", async () => {
  await using home = new Home();
  const settings = path.join(home.directory, ".claude", "settings.json");
  mkdirSync(path.dirname(settings));
  writeFileSync(settings, SETTINGS);
  const connect = new ConnectCommand(home.commandLine(), false);
  const stateOf = async (agent: string): Promise<string> => (await connect.agents()).find((one) => one.agent === agent)?.state ?? "none";

  const agents = await connect.agents();
  assert.ok(agents.length >= 6);
  assert.deepEqual(agents.filter((one) => nameOf(one.agent) === one.agent).map((one) => one.agent), ["opencode"]);
  assert.equal(agents.find((one) => one.agent === "claude")?.isFound, true);
  assert.equal(await stateOf("claude"), "absent");

  const preview = await connect.change("claude", { isRemoval: false, isDryRun: true });
  assert.match(differences(preview), /^\+.*hook session-start --agent claude/m);
  assert.equal(readFileSync(settings, "utf8"), SETTINGS, "a preview writes nothing");

  const done = await connect.change("claude", { isRemoval: false, isDryRun: false });
  assert.deepEqual(done.files, preview.files, "what was shown is what was done");
  assert.match(done.advice[0] ?? "", /start a new session of Claude Code/);
  assert.equal(await stateOf("claude"), "connected");
  assert.ok(isNothing(await connect.change("claude", { isRemoval: false, isDryRun: true })));
  const servers = JSON.parse(readFileSync(path.join(home.directory, ".claude.json"), "utf8")) as { mcpServers: { palace: { args: string[] } } };
  assert.ok(!servers.mcpServers.palace.args.includes("--data-dir"), "none was chosen");

  const undone = await connect.change("claude", { isRemoval: true, isDryRun: false });
  assert.deepEqual(undone.advice, []);
  assert.equal(await stateOf("claude"), "absent");
  assert.equal(readFileSync(settings, "utf8"), SETTINGS);
  assert.ok(!existsSync(path.join(home.directory, ".claude.json")));
});

test("settings that cannot be understood are told in the command's words, and stay", async () => {
  await using home = new Home();
  mkdirSync(path.join(home.directory, ".codex"));
  writeFileSync(path.join(home.directory, ".codex", "config.toml"), "[[");
  const connect = new ConnectCommand(home.commandLine(), true);
  const codex = (await connect.agents()).find((one) => one.agent === "codex");
  assert.equal(codex?.state, "unclear");
  assert.match(codex.reason, /cannot read .*config\.toml/);
  await assert.rejects(connect.change("codex", { isRemoval: false, isDryRun: false }), /^PalaceError: cannot read .*nothing was changed/);
});
