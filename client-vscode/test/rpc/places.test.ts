import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import * as path from "node:path";
import { after, before, describe, test } from "node:test";

import * as places from "../../src/core/places";
import { PYTHON, requirePython } from "./support/home";

const TOLD_BY_THE_DAEMON = `
import json, sys
from palace_daemon import places
data = places.data_dir(sys.argv[1] or None)
print(json.dumps([str(data), str(places.socket_path(data)), str(places.tcp_file(data)), str(places.log_file(data))]))
`;

/** The least that a Python needs; what a test names comes on top. */
const BARE = { PATH: process.env.PATH ?? "" };

function check(environment: Record<string, string>, chosen = ""): readonly string[] {
  const env = { ...BARE, ...environment };
  const told = JSON.parse(execFileSync(PYTHON, ["-c", TOLD_BY_THE_DAEMON, chosen], { env, cwd: "/", encoding: "utf8" })) as string[];
  const data = places.dataDirectory(chosen, env);
  const ours = [data, places.socketPath(data, env), places.tcpFile(data, env), places.logFile(data, env)];
  assert.deepEqual(ours, told);
  return ours;
}

describe("files lie where the daemon has them", () => {
  let directory = "";
  before(() => {
    requirePython();
    directory = mkdtempSync("/tmp/pal-places-");
  });
  after(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  test("with a home alone", () => {
    check({ HOME: directory });
  });

  test("with the directories of XDG", () => {
    const run = path.join(directory, "run");
    mkdirSync(run, { recursive: true });
    const [data, socket] = check({ HOME: directory, XDG_DATA_HOME: "/srv/data", XDG_STATE_HOME: "/srv/state", XDG_RUNTIME_DIR: run });
    assert.equal(data, process.platform === "darwin" ? path.join(directory, "Library/Application Support/palace") : "/srv/data/palace");
    assert.ok(socket?.startsWith(`${run}/palace/`));
  });

  test("with relative, empty and absent directories of XDG, which do not count", () => {
    check({ HOME: directory, XDG_DATA_HOME: "data", XDG_STATE_HOME: "", XDG_RUNTIME_DIR: path.join(directory, "absent") });
    check({ HOME: directory, XDG_RUNTIME_DIR: "run" });
  });

  test("with another directory for what is temporary", () => {
    check({ HOME: directory, TMPDIR: directory });
    check({ HOME: directory, TMPDIR: `${directory}/` });
    check({ HOME: directory, TMPDIR: "" });
    check({ HOME: directory, TMPDIR: path.join(directory, "absent") });
  });

  test("with PALACE_HOME, and with the setting before it", () => {
    check({ HOME: directory, PALACE_HOME: "/srv/palace" });
    check({ HOME: directory, PALACE_HOME: "~/memory" });
    check({ HOME: directory, PALACE_HOME: "" });
    check({ HOME: directory, PALACE_HOME: "/srv/palace" }, "/srv/other");
    check({ HOME: directory }, "~/memory");
    check({ HOME: directory }, "~");
  });

  test("with dots, doubled and last slashes in a path", () => {
    check({ HOME: directory }, "/srv//palace/");
    check({ HOME: directory, PALACE_HOME: "/srv/./palace" });
  });

  test("with a directory behind links, which is one with what they lead to", () => {
    const target = path.join(directory, "target");
    mkdirSync(path.join(target, "inner"), { recursive: true });
    symlinkSync(target, path.join(directory, "link"));
    const [, through] = check({ HOME: directory }, path.join(directory, "link", "inner"));
    const [, straight] = check({ HOME: directory }, path.join(target, "inner"));
    assert.equal(through, straight);
    check({ HOME: directory }, path.join(directory, "link", "not", "there", "yet"));
  });

  test("with a link that leads nowhere", () => {
    symlinkSync(path.join(directory, "gone"), path.join(directory, "dangling"));
    check({ HOME: directory }, path.join(directory, "dangling"));
    check({ HOME: directory }, path.join(directory, "dangling", "below"));
    symlinkSync("gone/../elsewhere", path.join(directory, "relative"));
    check({ HOME: directory }, path.join(directory, "relative", "below"));
  });

  test("with a runtime directory too deep for a socket, which then moves", () => {
    const deep = path.join(directory, "d".repeat(90));
    mkdirSync(deep);
    const [, socket] = check({ HOME: directory, XDG_RUNTIME_DIR: deep });
    assert.ok(socket?.startsWith("/tmp/palace-"));
  });

  test("with letters that are none of ASCII", () => {
    check({ HOME: directory, LC_ALL: "C.UTF-8" }, path.join(directory, "Gedächtnis 記憶"));
  });
});
