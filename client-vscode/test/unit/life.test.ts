import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { PalaceError } from "../../src/core/errors";
import { LOOK_MS, LOSSES_WITHIN_MS, RETRY_FIRST_MS, RETRY_LONGEST_MS, RETURN_MS } from "../../src/core/life";
import { idle } from "./support/fakeClock";
import { World } from "./support/fakeDaemon";

async function ready(change: (world: World) => void = () => undefined): Promise<World> {
  const world = new World();
  world.start();
  change(world);
  world.life.begin();
  await idle();
  assert.equal(world.life.state.kind, "ready");
  return world;
}

function kindIs(kind: string): (error: unknown) => boolean {
  return (error) => error instanceof PalaceError && error.kind === kind;
}

describe("beginning", () => {
  test("a daemon that runs is joined, and none is started", async () => {
    const world = await ready();
    assert.equal(world.launches, 0);
    assert.deepEqual(world.life.state, { kind: "ready", version: "0.1.0", dataDirectory: "/data" });
    assert.ok(world.asked.includes("palace/subscribe"));
  });

  test("where none runs, one is started and joined", async () => {
    const world = new World();
    world.life.begin();
    await idle();
    assert.deepEqual([world.launches, ...world.kinds], [1, "starting", "ready"]);
  });

  test("where none runs and none may be started, the state is off, and requests are rejected with what to do", async () => {
    const world = new World();
    world.mayStart = false;
    world.life.begin();
    await idle();
    assert.equal(world.life.state.kind, "off");
    await assert.rejects(world.life.request("palace/status", {}), (error) => error instanceof PalaceError && error.kind === "notRunning" && error.hint.includes('Restart'));
  });

  test("without a Python that has the package the state is missing, with its words", async () => {
    const world = new World();
    world.launchErrors.push(new PalaceError("no Python", "missing", "install it"));
    world.life.begin();
    await idle();
    assert.deepEqual(world.life.state, { kind: "missing", reason: "no Python", hint: "install it" });
  });

  test("a daemon that does not start is not tried again by itself", async () => {
    const world = new World();
    world.launchErrors.push(new PalaceError("the daemon did not start: no space", "notStarted", "make some"));
    world.life.begin();
    await world.clock.pass(60_000);
    assert.deepEqual(world.life.state, { kind: "failed", reason: "the daemon did not start: no space", hint: "make some" });
    assert.equal(world.launches, 1);
  });

  test("a store that cannot be opened is told in the daemon's words", async () => {
    const world = new World();
    world.start();
    world.refusals.set("palace/status", [new PalaceError("palace.db is damaged", "storeDamaged", "run doctor")]);
    world.life.begin();
    await idle();
    assert.deepEqual(world.life.state, { kind: "failed", reason: "palace.db is damaged", hint: "run doctor" });
    assert.equal(world.link.isOpen, false);
  });

  test("a store that another program holds is tried again with longer and longer delays, without an end", async () => {
    const world = new World();
    world.start();
    world.refusals.set("palace/status", Array.from({ length: 12 }, () => new PalaceError("locked", "storeBusy")));
    world.life.begin();
    await world.clock.pass(10 * 60_000);
    const delays = world.states.flatMap((state) => (state.kind === "waiting" ? [state.retryInMs] : []));
    assert.deepEqual(delays.slice(0, 4), [250, 500, 1_000, 2_000]);
    assert.equal(Math.max(...delays), RETRY_LONGEST_MS);
    assert.equal(world.life.state.kind, "ready");
  });

  test("a daemon of another protocol makes way for one of ours", async () => {
    const world = new World();
    world.start();
    world.connectErrors.push(new PalaceError("speaks protocol 0", "version"));
    world.life.begin();
    await idle();
    assert.deepEqual([world.launches, world.life.state.kind], [1, "ready"]);
  });

  test("what answers there but is somebody else's is not talked to", async () => {
    const world = new World();
    world.start();
    world.connectErrors.push(new PalaceError("belongs to another user", "foreign"));
    world.life.begin();
    await idle();
    assert.deepEqual([world.launches, world.life.state.kind], [0, "failed"]);
  });
});

describe("requests", () => {
  test("they wait while the daemon is being started", async () => {
    const world = new World();
    world.launchMs = 3_000;
    const asked = world.life.request("palace/recall", { query: "q" });
    world.life.begin();
    await world.clock.pass(2_999);
    assert.deepEqual(world.asked, []);
    await world.clock.pass(1);
    assert.deepEqual(await asked, { hits: [], answeredBy: world.pid });
  });

  test("one that waits can be withdrawn", async () => {
    const world = new World();
    const giveUp = new AbortController();
    const asked = world.life.request("palace/recall", { query: "q" }, { signal: giveUp.signal });
    giveUp.abort();
    await assert.rejects(asked, kindIs("cancelled"));
    world.life.begin();
    await idle();
    assert.ok(!world.asked.includes("palace/recall"));
  });

  test("a withdrawn read does not wait for a daemon that hangs", async () => {
    const world = await ready((made) => made.hangs.add("palace/recall"));
    const giveUp = new AbortController();
    const asked = world.life.request("palace/recall", { query: "q" }, { signal: giveUp.signal });
    await idle();
    giveUp.abort();
    await assert.rejects(asked, kindIs("cancelled"));
  });

  test("those that wait are rejected with the reason when there will be no daemon", async () => {
    const world = new World();
    world.launchErrors.push(new PalaceError("no Python", "missing", "install it"));
    const asked = world.life.request("palace/status", {});
    world.life.begin();
    await assert.rejects(asked, (error) => error instanceof PalaceError && error.kind === "notRunning" && error.message === "no Python");
  });

  test("a read that was under way when the daemon was killed is asked once more", async () => {
    const world = await ready((made) => made.hangs.add("palace/recall"));
    const asked = world.life.request("palace/recall", { query: "q" });
    await idle();
    world.hangs.clear();
    world.kill();
    await world.clock.pass(RETRY_FIRST_MS);
    assert.deepEqual(await asked, { hits: [], answeredBy: world.pid });
    assert.equal(world.asked.filter((method) => method === "palace/recall").length, 2);
  });

  test("a read is not asked a third time", async () => {
    const world = await ready((made) => made.hangs.add("palace/recall"));
    const asked = world.life.request("palace/recall", { query: "q" });
    const rejected = assert.rejects(asked, kindIs("disconnected"));
    await idle();
    world.kill();
    await world.clock.pass(RETRY_FIRST_MS);
    world.kill();
    await rejected;
    assert.equal(world.asked.filter((method) => method === "palace/recall").length, 2);
  });

  test("a read that the stopping daemon refuses waits for the next one", async () => {
    const world = await ready();
    world.refusals.set("palace/get", [new PalaceError("the daemon is stopping", "closed")]);
    const asked = world.life.request("palace/get", { id: "e" });
    await idle();
    world.stop();
    world.start();
    await world.clock.pass(0);
    assert.deepEqual(await asked, { hits: [], answeredBy: world.pid });
  });

  test("a write that was under way is rejected, and not done twice", async () => {
    const world = await ready((made) => made.hangs.add("palace/remember"));
    const asked = world.life.request("palace/remember", { text: "t" });
    const rejected = assert.rejects(asked, (error) => error instanceof PalaceError && error.kind === "disconnected" && error.hint !== "");
    await idle();
    world.hangs.clear();
    world.kill();
    await world.clock.pass(RETRY_FIRST_MS);
    await rejected;
    assert.equal(world.life.state.kind, "ready");
    assert.equal(world.asked.filter((method) => method === "palace/remember").length, 1);
  });

  test("an error of the daemon's own comes back as it is", async () => {
    const world = await ready();
    world.refusals.set("palace/get", [new PalaceError("no such exchange", "notFound")]);
    await assert.rejects(world.life.request("palace/get", { id: "e" }), kindIs("notFound"));
  });
});

describe("losses", () => {
  test("a killed daemon is started again after a delay", async () => {
    const world = await ready();
    const former = world.pid;
    world.kill();
    await idle();
    assert.deepEqual(world.life.state, { kind: "waiting", retryInMs: RETRY_FIRST_MS, reason: "the daemon ended" });
    await world.clock.pass(RETRY_FIRST_MS);
    assert.deepEqual([world.launches, world.life.state.kind], [1, "ready"]);
    assert.notEqual(world.pid, former);
  });

  test("the delay doubles, and the fifth loss within three minutes is the last", async () => {
    const world = await ready();
    for (const delayMs of [250, 500, 1_000, 2_000]) {
      world.kill();
      await idle();
      assert.deepEqual(world.life.state, { kind: "waiting", retryInMs: delayMs, reason: "the daemon ended" });
      await world.clock.pass(delayMs);
      assert.equal(world.life.state.kind, "ready");
    }
    world.kill();
    await world.clock.pass(10 * 60_000);
    assert.equal(world.life.state.kind, "failed");
    assert.equal(world.launches, 4);
    assert.equal(world.kinds.filter((kind) => kind === "failed").length, 1);
  });

  test("losses that lie further apart than that never are the last, and begin with a short delay", async () => {
    const world = await ready();
    for (let loss = 0; loss < 7; loss += 1) {
      await world.clock.pass(LOSSES_WITHIN_MS + 1);
      world.kill();
      await idle();
      assert.deepEqual(world.life.state, { kind: "waiting", retryInMs: RETRY_FIRST_MS, reason: "the daemon ended" });
      await world.clock.pass(RETRY_FIRST_MS);
      assert.equal(world.life.state.kind, "ready");
    }
  });

  test("a daemon that ends as soon as it has started counts as one that crashed", async () => {
    const world = new World();
    world.connectErrors.push(...Array.from({ length: 20 }, () => new PalaceError("no daemon is running", "notRunning")));
    world.life.begin();
    await world.clock.pass(4_000);
    assert.deepEqual([world.life.state.kind, world.launches], ["failed", 5]);
  });

  test("one that another window started meanwhile is joined without blame", async () => {
    const world = await ready();
    for (let loss = 0; loss < 8; loss += 1) {
      world.kill();
      world.start();
      await idle();
      assert.equal(world.life.state.kind, "ready");
    }
    assert.equal(world.launches, 0);
  });

  test("a daemon that only hung up is joined again after the delay, and not started", async () => {
    const world = await ready();
    world.remains = "process";
    world.link.close();
    await world.clock.pass(3_050);
    assert.equal(world.life.state.kind, "waiting");
    await world.clock.pass(RETRY_FIRST_MS);
    assert.deepEqual([world.life.state.kind, world.launches], ["ready", 0]);
  });

  test("events are heard over losses, and each connection subscribes", async () => {
    const world = await ready();
    const heard: unknown[] = [];
    const listening = world.life.on("palace/didMine", (told) => heard.push(told));
    world.link.tell("palace/didMine", 1);
    world.kill();
    await world.clock.pass(RETRY_FIRST_MS);
    world.link.tell("palace/didMine", 2);
    listening.dispose();
    world.link.tell("palace/didMine", 3);
    assert.deepEqual(heard, [1, 2]);
    assert.equal(world.asked.filter((method) => method === "palace/subscribe").length, 2);
  });
});

describe("a stop by somebody else", () => {
  test("is not fought: the state becomes off, with the reason", async () => {
    const world = await ready();
    world.stop();
    await world.clock.pass(RETURN_MS + RETRY_FIRST_MS);
    assert.deepEqual(world.life.state, { kind: "off", reason: "the daemon was stopped" });
    await world.clock.pass(10 * 60_000);
    assert.equal(world.launches, 0);
  });

  test("waits for the process, as long as its socket is still there", async () => {
    const world = await ready();
    world.stop();
    world.remains = "process"; // it closes its database
    await world.clock.pass(1_000);
    world.remains = "nothing";
    await world.clock.pass(RETURN_MS + 1_000);
    assert.deepEqual([world.life.state.kind, world.launches], ["off", 0]);
  });

  test("followed by another daemon, as in an upgrade, it is joined, without blame and ten times over", async () => {
    const world = await ready();
    for (let upgrade = 0; upgrade < 10; upgrade += 1) {
      world.stop();
      await world.clock.pass(1_000);
      world.start();
      await world.clock.pass(RETRY_FIRST_MS);
      assert.equal(world.life.state.kind, "ready");
    }
    assert.ok(!world.kinds.includes("waiting") && !world.kinds.includes("off"));
  });

  test("a daemon that comes much later is noticed", async () => {
    const world = await ready();
    world.stop();
    await world.clock.pass(3_600_000);
    world.start();
    await world.clock.pass(LOOK_MS);
    assert.deepEqual([world.life.state.kind, world.launches], ["ready", 0]);
  });
});

describe("restart", () => {
  test("ends the daemon and starts another", async () => {
    const world = await ready();
    const former = world.pid;
    await world.life.restart();
    assert.deepEqual([world.launches, world.life.state.kind], [1, "ready"]);
    assert.notEqual(world.pid, former);
  });

  test("starts one where the state was off and the settings start none", async () => {
    const world = new World();
    world.mayStart = false;
    world.life.begin();
    await idle();
    await world.life.restart();
    assert.equal(world.life.state.kind, "ready");
  });

  test("forgets earlier losses", async () => {
    const world = await ready();
    for (let loss = 0; loss < 5; loss += 1) {
      world.kill();
      await world.clock.pass(5_000);
    }
    assert.equal(world.life.state.kind, "failed");
    await world.life.restart();
    world.kill();
    await idle();
    assert.deepEqual(world.life.state, { kind: "waiting", retryInMs: RETRY_FIRST_MS, reason: "the daemon ended" });
  });

  test("several at once are one in flight and one after it", async () => {
    const world = await ready();
    world.launchMs = 100;
    const all = [1, 2, 3, 4, 5].map(() => world.life.restart());
    await world.clock.pass(1_000);
    await Promise.all(all);
    assert.equal(world.launches, 2);
  });

  test("is rejected in words where there is no Python any more", async () => {
    const world = await ready();
    world.launchErrors.push(new PalaceError("no Python", "missing", "install it"));
    await assert.rejects(world.life.restart(), (error) => error instanceof PalaceError && error.message === "no Python");
    assert.equal(world.life.state.kind, "missing");
  });

  test("gives up on a daemon that does not end, and says which process it is", async () => {
    const world = await ready((made) => made.hangs.add("palace/stop"));
    const rejected = assert.rejects(world.life.restart(), (error) => error instanceof PalaceError && error.hint.includes(`process ${world.pid}`));
    await world.clock.pass(5_000);
    await rejected;
    assert.deepEqual([world.life.state.kind, world.launches], ["failed", 0]);
  });

  test("a daemon that ends late after all, or is ended by its number, is joined when it is there again", async () => {
    const world = await ready((made) => made.hangs.add("palace/stop"));
    const rejected = assert.rejects(world.life.restart());
    await world.clock.pass(5_000);
    await rejected;
    world.stop();
    world.start();
    await world.clock.pass(LOOK_MS);
    assert.equal(world.life.state.kind, "ready");
    assert.deepEqual(await world.life.request("palace/get", { id: "e" }), { hits: [], answeredBy: world.pid });
    world.life.dispose();
    await idle();
    assert.deepEqual(world.links.filter((link) => link.isOpen), []);
  });

  test("says where the number of a daemon stands that does not even greet", async () => {
    const world = new World();
    world.start();
    world.connectErrors.push(...Array.from({ length: 3 }, () => new PalaceError("the daemon does not answer", "deadline")));
    world.life.begin();
    await idle();
    assert.equal(world.life.state.kind, "waiting");
    const rejected = assert.rejects(world.life.restart(), (error) => error instanceof PalaceError && error.message.includes("does not answer") && error.hint.includes("/data/daemon.lock"));
    await idle();
    assert.equal(world.life.state.kind, "failed");
    await rejected;
    assert.equal(world.launches, 0);
  });

  test("a change of settings takes its place", async () => {
    const world = await ready((made) => made.hangs.add("palace/stop"));
    const restarting = world.life.restart();
    await idle();
    world.life.begin();
    await restarting;
    await idle();
    assert.equal(world.life.state.kind, "ready");
  });
});

describe("who listens", () => {
  test("a fault of one keeps nobody else from hearing, and no daemon from being used", async () => {
    const world = new World();
    world.start();
    world.life.onDidChangeState(() => {
      throw new Error("a fault of a view");
    });
    const heard: string[] = [];
    world.life.onDidChangeState((state) => heard.push(state.kind));
    world.life.on("palace/didMine", () => {
      throw new Error("a fault of a view");
    });
    const mined: unknown[] = [];
    world.life.on("palace/didMine", (told) => mined.push(told));
    world.life.begin();
    await idle();
    assert.deepEqual([world.life.state.kind, heard], ["ready", ["ready"]]);
    world.link.tell("palace/didMine", 1);
    assert.deepEqual(mined, [1]);
    assert.deepEqual(world.logged.filter((line) => line.includes("a fault of a view")).length, 2);
  });
});

describe("settings and ending", () => {
  test("beginning anew takes the data directory of now", async () => {
    const world = await ready();
    const former = world.link;
    world.dataDirectory = "/other";
    world.life.begin();
    await idle();
    assert.equal(former.isOpen, false);
    assert.deepEqual(world.life.state, { kind: "ready", version: "0.1.0", dataDirectory: "/other" });
  });

  test("dispose ends the connection, not the daemon, and leaves no timer", async () => {
    const world = await ready();
    const asked = world.life.request("palace/status", {});
    await asked;
    world.life.dispose();
    await idle();
    assert.equal(world.link.isOpen, false);
    assert.ok(world.pid > 0 && !world.asked.includes("palace/stop"));
    assert.equal(world.clock.timers, 0);
    await assert.rejects(world.life.request("palace/status", {}), kindIs("cancelled"));
  });

  test("dispose while waiting leaves no timer, and who waits is told nothing", async () => {
    const world = await ready();
    world.kill();
    await idle();
    const asked = world.life.request("palace/status", {});
    world.life.dispose();
    await assert.rejects(asked, kindIs("cancelled"));
    await world.clock.pass(60_000);
    assert.deepEqual([world.clock.timers, world.launches], [0, 0]);
  });
});
