/** A real daemon that hangs: it is there, takes connections, and says nothing. */

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import { Connection } from "../../src/core/connection";
import * as endpoint from "../../src/core/endpoint";
import { PalaceError } from "../../src/core/errors";
import { Life } from "../../src/core/life";
import { remainsOf } from "../../src/core/remains";
import { fastClock, Home, stateOf } from "./support/home";

let home: Home;

beforeEach(() => {
  home = new Home();
});

afterEach(async () => {
  await home[Symbol.asyncDispose]();
});

describe("a daemon that hangs", () => {
  test("is waited for however long that takes, not taken for one that crashed, and answers when it goes on", async () => {
    const first = home.life();
    first.begin();
    await stateOf(first, "ready");
    const { pid } = await first.request("palace/status", {});
    process.kill(pid, "SIGSTOP");
    try {
      let waits = 0;
      let launches = 0;
      const life = new Life({
        dataDirectory: () => home.data,
        mayStart: () => true,
        connect: async (data) => await Connection.greet(await endpoint.connect(data), 50),
        launch: () => Promise.resolve(void (launches += 1)),
        remainsOf,
        clock: fastClock(20),
        log: () => undefined,
      });
      const kinds: string[] = [];
      life.onDidChangeState(({ kind }) => kinds.push(kind));
      const sevenWaits = new Promise<void>((resolve) => {
        life.onDidChangeState(({ kind }) => {
          if (kind === "waiting" && (waits += 1) === 7) resolve();
        });
      });
      const asked = life.request("palace/status", {});
      life.begin();
      await sevenWaits;
      assert.deepEqual([launches, kinds.includes("failed")], [0, false]);
      await assert.rejects(life.restart(), (error) => error instanceof PalaceError && error.hint.includes("daemon.lock"));
      await assert.rejects(asked, (error) => error instanceof PalaceError && error.kind === "notRunning");
      process.kill(pid, "SIGCONT");
      await stateOf(life, "ready");
      assert.equal((await life.request("palace/status", {})).pid, pid);
      life.dispose();
    } finally {
      process.kill(pid, "SIGCONT");
      first.dispose();
    }
  });
});
