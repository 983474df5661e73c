import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import * as path from "node:path";
import { after, before, test } from "node:test";

import { CodeServer } from "./support/codeServer.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";

let server: CodeServer;
let window: Workbench;
let other: Workbench;

before(async () => {
  server = await CodeServer.start("life");
});

after(async () => {
  await server.end();
});

/** The daemons that run in the world, by process id. */
function daemons(): number[] {
  return server.world.processes().filter((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      return words.includes("palace_daemon") && words.includes("serve");
    } catch {
      return false; // it ended meanwhile
    }
  });
}

async function untilOneDaemon(otherThan?: number): Promise<number> {
  return await until("one daemon runs", () => {
    const [pid, ...more] = daemons();
    return pid !== undefined && more.length === 0 && pid !== otherThan ? pid : undefined;
  }, { seen: daemons });
}

async function recalls(asking: Workbench): Promise<void> {
  await asking.command("Palace: Recall…");
  await asking.input.fill("database is locked");
  await until("Recall answers", async () => (await asking.rows()).some((row) => row.label.startsWith("Three nights in a row")), { seen: () => asking.rows() });
  await asking.closeQuickInput();
}

test("two windows that open at the same time share one daemon", async () => {
  await server.scenario("two-windows", async () => {
    [window, other] = await Promise.all([server.open(), server.open()]);
    for (const one of [window, other]) await one.untilStatus(/^28$/);
    await untilOneDaemon();
    for (const one of [window, other]) {
      await one.page.bringToFront();
      await recalls(one);
    }
    await window.page.bringToFront();
    assert.equal(daemons().length, 1);
  });
});

test("changed settings apply without a reload", async () => {
  await server.scenario("settings", async () => {
    await other.close();
    await window.changeSettings(server.world, { "palace.recall.limit": 3 });
    await until("Recall lists three", async () => {
      await window.command("Palace: Recall…");
      await window.input.fill("database");
      await until("it answers", async () => (await window.rows()).length > 0 && !(await window.quickInputState()).isBusy);
      const rows = (await window.rows()).filter((row) => row.label !== "");
      await window.closeQuickInput();
      return rows.length === 3;
    }, { seen: () => window.rows() });

    await window.changeSettings(server.world, { "palace.statusBar": false });
    await until("the status item is gone", async () => (await window.status()) === undefined, { seen: () => window.status() });
    await window.changeSettings(server.world, { "palace.statusBar": true });
    await window.untilStatus(/^\d+\b/);

    const before = await untilOneDaemon();
    const elsewhere = path.join(server.world.root, "elsewhere");
    await server.world.palace("remember", "The harbour lamp has a green filter.");
    await window.changeSettings(server.world, { "palace.dataDirectory": elsewhere }, "machine");
    await until("a daemon of the other directory runs", () => daemons().some((pid) => pid !== before && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(elsewhere)), { seen: daemons });
    await window.untilStatus(/^\d+\b/);
    await window.command("Palace: Show Status");
    await until("the status is that of the other directory", async () => (await window.rows()).some((row) => row.label === "Exchanges"));
    await window.input.fill("Data directory");
    await until("it names the directory", async () => (await window.rows()).some((row) => `${row.description} ${row.detail}`.includes(elsewhere)), { seen: () => window.rows() });
    await window.screenshot("status");
    await window.closeQuickInput();

    await server.world.palace("--data-dir", elsewhere, "stop");
    await window.changeSettings(server.world, { "palace.dataDirectory": "" }, "machine");
    await untilOneDaemon();
    await window.untilStatus(/^\d+\b/);
  });
});

const FIVE_TIMES = /five times|5 times/;

/** How often the window lost the daemon and then showed figures again, by the texts of its status item. */
function returns(seen: readonly string[]): number {
  const hasFigures = seen.map((text) => /\d/.test(text));
  return hasFigures.filter((has, index) => has && hasFigures[index - 1] === false).length;
}

test("a killed daemon comes back by itself; after five kills one message among the windows offers to start it again", async () => {
  await server.scenario("killed", async () => {
    other = await server.open();
    await other.untilStatus(/^\d+\b/);
    const windows = [window, other];
    const recorded = await Promise.all(windows.map((one) => one.recordStatus()));
    const seen = (): Promise<string[][]> => Promise.all(recorded.map((one) => one()));
    const haveGivenUp = async (): Promise<boolean> => (await Promise.all(windows.map((one) => one.status()))).every((status) => status?.text.includes("does not run") ?? false);
    let kills = 0;
    // Five, unless the machine is so slow that the first of them is three minutes ago by then.
    while (!(await haveGivenUp())) {
      process.kill(await untilOneDaemon(), "SIGKILL");
      kills += 1;
      // A window that has not reached the next one yet would not count that one's end.
      const areBack = async (): Promise<boolean> => (await seen()).every((texts) => returns(texts) === kills);
      await until("both windows are back, or have given up", async () => (await areBack()) || (await haveGivenUp()), { limitMs: 60_000, seen });
      if (kills > 1) continue;
      assert.ok((await seen()).every((texts) => texts.some((text) => /reconnecting|starting/.test(text))));
      await window.page.bringToFront();
      await recalls(window);
    }
    assert.ok(kills >= 5, `given up after ${kills}`);
    const told = async (): Promise<Workbench[]> => {
      const counts = await Promise.all(windows.map((one) => one.notifications()));
      return windows.filter((_, index) => counts[index]?.some((text) => FIVE_TIMES.test(text)));
    };
    const [teller] = await until("one tells", async () => ((await told()).length > 0 ? told() : undefined));
    assert.ok(teller);
    assert.deepEqual(daemons(), []);
    await teller.page.bringToFront();
    await teller.screenshot("killed-five-times");
    await teller.command("Palace: Recall…");
    await until("Recall offers to restart it", async () => (await teller.rows()).some((row) => row.label.startsWith("Restart")), { seen: () => teller.rows() });
    await teller.screenshot("killed-recall");
    await teller.closeQuickInput();
    const all = await Promise.all(windows.map((one) => one.allNotifications()));
    assert.equal(all.flat().filter((text) => FIVE_TIMES.test(text)).length, 1, "one message among the windows");

    await teller.pressNotification(FIVE_TIMES, "Restart Daemon");
    for (const one of windows) await one.untilStatus(/^\d+\b/);
    await recalls(teller);
  });
});
