/** The life of the real daemon, as the extension lives it: started, killed, stopped, restarted, shared. */

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import * as path from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";

import { Connection } from "../../src/core/connection";
import * as endpoint from "../../src/core/endpoint";
import { PalaceError } from "../../src/core/errors";
import { launch } from "../../src/core/launch";
import * as places from "../../src/core/places";
import { findPython } from "../../src/core/python";
import { remainsOf } from "../../src/core/remains";
import { fastClock, Home, PYTHON, REPOSITORY, stateOf } from "./support/home";

let home: Home;

beforeEach(() => {
  home = new Home();
});

afterEach(async () => {
  await home[Symbol.asyncDispose]();
});

describe("starting", () => {
  test("the daemon greets with its version and its methods", async () => {
    await launch({ commandLine: home.commandLine() });
    const connection = await Connection.greet(await endpoint.connect(home.data));
    assert.deepEqual(connection.hello.protocolVersion, 1);
    assert.ok(connection.hello.methods.includes("palace/recall"));
    assert.deepEqual([...connection.hello.events].sort(), ["didChangeStatus", "didMine"]);
    connection.close();
    await connection.ended;
  });

  test("the Python that the tests use is found, by its path and by the command beside it", async () => {
    for (const setting of [PYTHON, path.join(path.dirname(PYTHON), "palace-daemon")]) {
      const { found } = await findPython({ setting, storage: home.directory, interpreter: "" });
      assert.equal(path.dirname(found?.executable ?? ""), path.dirname(PYTHON));
    }
  });

  test("two windows that start at once end with one daemon", async () => {
    const [one, other] = [home.life(), home.life()];
    one.begin();
    other.begin();
    await Promise.all([stateOf(one, "ready"), stateOf(other, "ready")]);
    const pids = await Promise.all([one, other].map(async (life) => (await life.request("palace/status", {})).pid));
    assert.equal(pids[0], pids[1]);
  });

  test("a model that is still to be fetched delays nothing", async () => {
    // A file in the place of the directory: nothing is fetched for a test.
    process.env.PALACE_MODELS = path.join(home.directory, "m");
    writeFileSync(process.env.PALACE_MODELS, "");
    const life = home.life();
    life.begin();
    await stateOf(life, "ready");
    assert.deepEqual((await life.request("palace/recall", { query: "q" })).hits, []);
  });

  test("a data directory that cannot be made is told in the daemon's words", async () => {
    const file = path.join(home.directory, "file");
    writeFileSync(file, "");
    const life = home.life({ data: file });
    life.begin();
    const state = await stateOf(life, "failed");
    assert.ok(state.kind === "failed" && /^the daemon did not start: cannot use .*file/.test(state.reason), JSON.stringify(state));
  });

  test("a damaged store is told in the daemon's words, with what to do", async () => {
    mkdirSync(home.data, { mode: 0o700 });
    writeFileSync(path.join(home.data, "palace.db"), Buffer.alloc(9_000, 7));
    const life = home.life();
    life.begin();
    const state = await stateOf(life, "failed");
    assert.ok(state.kind === "failed" && state.reason.includes("damaged") && state.hint.includes("doctor"), JSON.stringify(state));
  });

  test("a Python without the package is told in words", async () => {
    await assert.rejects(launch({ commandLine: [PYTHON, "-m", "no_such_package_at_all"] }), (error) => error instanceof PalaceError && error.message.includes("no_such_package_at_all"));
  });
});

describe("going away and coming back", () => {
  test("a daemon that is killed leaves its socket, is started again, and a question of that moment is answered", async () => {
    const life = home.life();
    life.begin();
    await stateOf(life, "ready");
    const { pid } = await life.request("palace/status", {});
    const gone = new Promise<void>((resolve) => {
      const listening = life.onDidChangeState((state) => {
        if (state.kind !== "waiting") return;
        listening.dispose();
        resolve();
      });
    });
    process.kill(pid, "SIGKILL"); // our own: it told its number just now
    const asked = life.request("palace/recall", { query: "q" });
    await gone;
    assert.equal(remainsOf(home.data, pid), "socket");
    assert.deepEqual((await asked).hits, []);
    assert.notEqual((await life.request("palace/status", {})).pid, pid);
  });

  test("a daemon that somebody stops stays away: the state is off until a person restarts it", async () => {
    const life = home.life({ clock: fastClock(5) });
    life.begin();
    await stateOf(life, "ready");
    const { pid } = await life.request("palace/status", {});
    await home.palaceDaemon("stop");
    assert.equal(remainsOf(home.data, pid), "nothing");
    assert.deepEqual(await stateOf(life, "off"), { kind: "off", reason: "the daemon was stopped" });
    await assert.rejects(life.request("palace/status", {}), (error) => error instanceof PalaceError && error.kind === "notRunning");
    await life.restart();
    assert.equal(life.state.kind, "ready");
  });

  test("a daemon that is restarted on the command line is joined again", async () => {
    const life = home.life();
    life.begin();
    await stateOf(life, "ready");
    const { pid } = await life.request("palace/status", {});
    const kinds: string[] = [];
    life.onDidChangeState((state) => kinds.push(state.kind));
    await home.palaceDaemon("restart");
    await stateOf(life, "ready");
    assert.notEqual((await life.request("palace/status", {})).pid, pid);
    assert.ok(!kinds.includes("off") && !kinds.includes("failed"), kinds.join(" "));
  });

  test("restarts that two windows ask for at once leave one daemon that both have", async () => {
    const [one, other] = [home.life(), home.life()];
    for (const life of [one, other]) life.begin();
    await Promise.all([one, other].map((life) => stateOf(life, "ready")));
    const { pid } = await one.request("palace/status", {});
    await Promise.all([one.restart(), other.restart()]);
    const status = await Promise.all([one, other].map((life) => life.request("palace/status", {})));
    assert.equal(status[0]?.pid, status[1]?.pid);
    assert.notEqual(status[0]?.pid, pid);
  });

  test("the daemon outlives the window", async () => {
    const life = home.life();
    life.begin();
    await stateOf(life, "ready");
    const { pid } = await life.request("palace/status", {});
    life.dispose();
    const next = home.life({ mayStart: false });
    next.begin();
    await stateOf(next, "ready");
    assert.equal((await next.request("palace/status", {})).pid, pid);
  });
});

describe("over TCP, as on Windows", () => {
  test("token and proof are exchanged, and questions answered", async () => {
    await home.serving(undefined, true);
    const connection = await Connection.greet(await endpoint.connectTcp(home.data));
    assert.deepEqual((await connection.request("palace/recall", { query: "q" })).hits, []);
    connection.close();
  });

  test("who lacks the proof is told no question", async () => {
    await home.serving(undefined, true);
    const file = places.tcpFile(home.data);
    const told = JSON.parse(readFileSync(file, "ascii")) as { proof: string };
    writeFileSync(file, JSON.stringify({ ...told, proof: "0".repeat(64) }));
    await assert.rejects(Connection.greet(await endpoint.connectTcp(home.data)), (error) => error instanceof PalaceError && error.kind === "foreign");
    writeFileSync(file, JSON.stringify(told));
  });

  test("a wrong token is refused", async () => {
    await home.serving(undefined, true);
    const file = places.tcpFile(home.data);
    const told = JSON.parse(readFileSync(file, "ascii")) as { token: string };
    writeFileSync(file, JSON.stringify({ ...told, token: "0".repeat(64) }));
    await assert.rejects(Connection.greet(await endpoint.connectTcp(home.data)), (error) => error instanceof PalaceError && error.kind === "token");
    writeFileSync(file, JSON.stringify(told));
  });
});

describe("withdrawing", () => {
  /** The real daemon around a store that holds every question that begins with "wait". */
  const HOLDING = (tests: string): string => `
import sys
sys.path[:0] = [${JSON.stringify(tests)}]
from rpc.fake_daemon import FakePalace
from palace_daemon.rpc import serve
serve._open_palace = lambda _config: FakePalace()
from palace_daemon.__main__ import main
main()
`;

  test("a withdrawn request is cancelled in the daemon, and the next one is answered", async () => {
    const script = path.join(home.directory, "holding.py");
    writeFileSync(script, HOLDING(path.join(REPOSITORY, "tests")));
    await home.serving([PYTHON, script, "--data-dir", home.data]);
    const connection = await Connection.greet(await endpoint.connect(home.data));
    const giveUp = new AbortController();
    const held = connection.request("palace/recall", { query: "wait" }, { signal: giveUp.signal });
    assert.notDeepEqual((await connection.request("palace/recall", { query: "others go on" })).hits, []);
    giveUp.abort();
    await assert.rejects(held, (error) => error instanceof PalaceError && error.kind === "cancelled");
    await assert.rejects(connection.request("palace/recall", { query: "wait", timeoutMs: 1 }), (error) => error instanceof PalaceError && error.kind === "deadline");
    connection.close();
  });

  test("a request that is withdrawn while the connection breaks is over all the same", async () => {
    await launch({ commandLine: home.commandLine() });
    const found = await endpoint.connect(home.data);
    const connection = await Connection.greet(found);
    const giveUp = new AbortController();
    const asked = connection.request("palace/mine", { wait: true }, { signal: giveUp.signal });
    found.socket.destroy();
    giveUp.abort();
    await assert.rejects(asked, (error) => error instanceof PalaceError && error.kind === "disconnected");
    await connection.ended;
    await assert.rejects(connection.request("palace/status", {}), (error) => error instanceof PalaceError && error.kind === "disconnected");
  });
});
