/**
 * Figures of the extension in the real workbench: from a key to the results, activation, sizes.
 *
 *   npm run measure                        a store of 20,000 drawers, as a table
 *   npm run -s measure -- --json           the same as one JSON object
 *   npm run measure -- --drawers 1000 --questions 20 --loads 3
 *
 * The store is the one that `palace-daemon --bench scale` builds; it is kept in ~/.cache/palace/workbench/stores under a
 * name that says what it depends on.
 *
 * Key to results begins with the event of a question's last key and ends with the last change of the list. The pause that
 * Recall makes after a key (palace.recall.delayMs) is in it, and so is what the daemon takes; how long that is, other
 * questions tell that are asked without the editor in between.
 */

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import * as net from "node:net";
import { cpus, homedir } from "node:os";
import * as path from "node:path";
import { parseArgs } from "node:util";

import { Connection } from "../../src/core/connection.ts";
import { readInput, toAsk } from "../../src/core/filters.ts";
import { socketPath } from "../../src/core/places.ts";
import { CodeServer } from "./support/codeServer.ts";
import { EXTENSION, models, python, vsix } from "./support/installed.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";
import type { World } from "./support/world.ts";

const DIST = path.join(EXTENSION, "dist");
/** What activation may add to the start of the editor, with compiling. */
const GOAL_MS = 50;
const QUIET_MS = 400;
const KEY_EVERY_MS = 70;
/** Drawers of the store whose vectors are real; the others' lie about as those do. */
const REAL_VECTORS = 200;

interface Wanted {
  readonly drawers: number;
  readonly questions: number;
  readonly loads: number;
}

interface Spread {
  readonly p50: number;
  readonly p95: number;
}

/** Of several loads of the window, in ms. */
interface Loads {
  readonly median: number;
  readonly worst: number;
}

interface Figures {
  readonly drawers: number;
  readonly questions: number;
  readonly keystrokes: number;
  readonly keyEveryMs: number;
  readonly keyToResultsMs: Spread;
  /** The default of palace.recall.delayMs. */
  readonly pauseMs: number;
  /** From a request on the socket to its answer. */
  readonly daemonMs: Spread;
  readonly activation: {
    readonly loads: number;
    /** All that Palace adds to the start: the three below. */
    readonly palaceMs: Loads;
    /** To read and compile what the editor loads, before its first line. */
    readonly compileMs: Loads;
    /** To run it, before `activate` is called, as the extension tells in its log. */
    readonly loadMs: Loads;
    /** In `activate`, until it returns. */
    readonly activateMs: Loads;
    /** What is loaded after it, each in a turn of its own, by what it is. */
    readonly laterMs: Readonly<Record<string, Loads>>;
    /** As Developer: Show Running Extensions tells, with the waiting for other extensions. */
    readonly editorMs: Loads;
  };
  /** Of what the editor loads when it starts. */
  readonly startingBytes: number;
  /** Of all that may be loaded. */
  readonly bundleBytes: number;
  readonly vsixBytes: number;
  readonly cpus: number;
}

/** The directory of the store, which is built where it is not kept yet: with 20,000 drawers that takes some minutes. */
function storeOf(drawers: number): string {
  const base = process.env.PALACE_WORKBENCH ?? path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), ".cache"), "palace", "workbench");
  const stores = path.join(base, "stores");
  mkdirSync(stores, { recursive: true });
  const program = `
import pathlib, sys
from palace_daemon.bench import scale
print(scale.kept_store(pathlib.Path(sys.argv[1]), int(sys.argv[2]), scale.Settings(real=${REAL_VECTORS})))
`;
  const env = { ...process.env, PALACE_MODELS: models() };
  return execFileSync(python(), ["-c", program, stores, `${drawers}`], { env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] }).trim();
}

/** What a setting of Recall is where nobody chose otherwise. */
function defaultOf(setting: "delayMs" | "limit"): number {
  const { contributes } = JSON.parse(readFileSync(path.join(EXTENSION, "package.json"), "utf8")) as {
    contributes: { configuration: { properties: Record<string, { default: unknown }> } };
  };
  return Number(contributes.configuration.properties[`palace.recall.${setting}`]?.default);
}

/** Questions about what the store holds: whole sentences of it without their last word. */
function questionsOf(store: string, wanted: number): string[] {
  const { texts } = JSON.parse(readFileSync(path.join(store, "built.json"), "utf8")) as { texts: [exchanges: number[], drawers: string[]] };
  const sentences = texts[1].flatMap((text) => text.match(/[^.?\n>]+[.?]/g) ?? []).map((one) => one.trim().toLowerCase().split(/\s+/));
  const fit = [...new Set(sentences.filter((words) => words.length >= 5 && words.length <= 9).map((words) => words.slice(0, -1).join(" ")))];
  const step = Math.max(1, Math.floor(fit.length / wanted));
  return fit.filter((_, index) => index % step === 0).slice(0, wanted);
}

/** Notes when the last key came, and when an answer was shown last: where it is that of the key before, only the bar of progress tells. */
async function observe(window: Workbench): Promise<void> {
  await window.page.evaluate(() => {
    const times = { key: 0, list: 0 };
    Object.assign(globalThis, { palaceTimes: times });
    document.addEventListener("keydown", () => (times.key = performance.now()), true);
    const answers = new MutationObserver(() => (times.list = performance.now()));
    const [list, progress] = [".quick-input-list", ".quick-input-progress"].map((selector) => document.querySelector(selector) ?? document.body);
    answers.observe(list ?? document.body, { subtree: true, childList: true, characterData: true });
    answers.observe(progress ?? document.body, { attributes: true, attributeFilter: ["class"] });
  });
}

/** From the last key of the question to the list's last change, in ms. */
async function keyToResults(window: Workbench, question: string): Promise<number> {
  await window.input.fill("");
  await untilQuiet(window);
  await window.page.keyboard.type(question, { delay: KEY_EVERY_MS });
  const { key, list } = await untilQuiet(window);
  return list - key;
}

async function untilQuiet(window: Workbench): Promise<{ key: number; list: number }> {
  return await until("the list rests", async () => {
    const { isBusy } = await window.quickInputState();
    const now = await window.page.evaluate(() => {
      const { palaceTimes } = globalThis as unknown as { palaceTimes: { key: number; list: number } };
      return { ...palaceTimes, now: performance.now() };
    });
    const isQuiet = !isBusy && now.list > now.key && now.now - Math.max(now.list, now.key) > QUIET_MS;
    return isQuiet ? now : undefined;
  });
}

/** The command that shows it opens an editor, which is closed again: the next load must not bring it back. */
async function editorsFigureMs(window: Workbench): Promise<number> {
  await window.command("Developer: Show Running Extensions");
  const row = window.page.locator(".runtime-extensions-editor .extension").filter({ hasText: /Palace/ }).first();
  const told = await until("the editor tells how long it took", async () => /Activation: (\d+)ms/.exec(await row.innerText())?.[1]);
  await window.command("View: Close Editor");
  return Number(told);
}

interface Told {
  readonly activations: readonly { readonly wholeMs: number; readonly loadMs: number }[];
  readonly later: ReadonlyMap<string, readonly number[]>;
}

/** What the extension told in its log of each window that was loaded so far. */
function told(world: World): Told {
  const logs = path.join(world.userData, "logs");
  const files = readdirSync(logs, { recursive: true, encoding: "utf8" }).filter((name) => path.basename(name) === "Palace.log");
  const text = files.map((name) => readFileSync(path.join(logs, name), "utf8")).join("\n");
  const activations = [...text.matchAll(/Activated in ([\d.]+) ms, ([\d.]+) of them to load\./g)];
  const later = new Map<string, number[]>();
  for (const [, what = "", ms] of text.matchAll(/Loaded (.*) in ([\d.]+) ms\./g)) later.set(what, [...(later.get(what) ?? []), Number(ms)]);
  return { activations: activations.map(([, wholeMs, loadMs]) => ({ wholeMs: Number(wholeMs), loadMs: Number(loadMs) })), later };
}

async function measureActivation(server: CodeServer, window: Workbench, loads: number): Promise<Figures["activation"]> {
  const editors: number[] = [];
  for (let load = 1; ; load++) {
    await window.untilStatus(/^\d/);
    editors.push(await editorsFigureMs(window));
    if (load === loads) break;
    await window.page.reload();
  }
  const { activations, later } = await until("the extension told of each load", () => {
    const found = told(server.world);
    return found.activations.length === loads ? found : undefined;
  }, { seen: () => told(server.world) });
  const compiles = activations.map(() => compileMs(server.tools.node));
  return {
    loads,
    palaceMs: ofLoads(activations.map(({ wholeMs }, index) => wholeMs + (compiles[index] ?? NaN))),
    compileMs: ofLoads(compiles),
    loadMs: ofLoads(activations.map((one) => one.loadMs)),
    activateMs: ofLoads(activations.map((one) => one.wholeMs - one.loadMs)),
    laterMs: Object.fromEntries([...later].map(([what, times]) => [what, ofLoads(times)])),
    editorMs: ofLoads(editors),
  };
}

/** In a new process, as in a new extension host. */
function compileMs(node: string): number {
  const program = `
const { readFileSync } = require("node:fs"), { compileFunction } = require("node:vm");
const begunAt = performance.now();
compileFunction(readFileSync(process.argv[1], "utf8"), ["exports", "require", "module"]);
console.log(performance.now() - begunAt);
`;
  return Number(execFileSync(node, ["-e", program, path.join(DIST, "extension.js")], { encoding: "utf8" }));
}

/** What the daemon takes for a question, as Recall asks it, in ms. */
async function daemonMs(daemon: Connection, question: string): Promise<number> {
  const now = new Date();
  const { params } = toAsk(readInput(question, now), { place: "all", agent: "", span: "any" }, { project: undefined, now, limit: defaultOf("limit") });
  const begunAt = performance.now();
  await daemon.request("palace/recall", params);
  return performance.now() - begunAt;
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return Math.round(10 * (sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN)) / 10;
}

function spread(values: readonly number[]): Spread {
  return { p50: quantile(values, 0.5), p95: quantile(values, 0.95) };
}

function ofLoads(values: readonly number[]): Loads {
  return { median: quantile(values, 0.5), worst: quantile(values, 1) };
}

async function measure(wanted: Wanted): Promise<Figures> {
  const store = storeOf(wanted.drawers);
  // Every other one is asked without the editor: a daemon that remembered answers would look fast.
  const questions = questionsOf(store, 2 * wanted.questions);
  const server = await CodeServer.start("measure", { hasTranscripts: false, memory: (directory) => { cpSync(store, directory, { recursive: true }); } });
  try {
    const window = await server.open();
    const activation = await measureActivation(server, window, wanted.loads);
    await window.command("Palace: Recall…");
    await until("Recall lists something", async () => (await window.rows()).length > 1);
    await observe(window);
    const daemon = await Connection.greet({ socket: net.connect(socketPath(server.world.memory, server.world.env)) });
    const [times, daemons, typed]: [number[], number[], string[]] = [[], [], []];
    for (let index = 0; index + 1 < questions.length; index += 2) {
      const [question = "", other = ""] = questions.slice(index, index + 2);
      const [ms, ofDaemon] = [await keyToResults(window, question), await daemonMs(daemon, other)];
      if (index === 0) continue; // loads the model
      times.push(ms);
      daemons.push(ofDaemon);
      typed.push(question);
    }
    daemon.close();
    return {
      drawers: wanted.drawers,
      questions: times.length,
      keystrokes: typed.join("").length,
      keyEveryMs: KEY_EVERY_MS,
      keyToResultsMs: spread(times),
      pauseMs: defaultOf("delayMs"),
      daemonMs: spread(daemons),
      activation,
      startingBytes: statSync(path.join(DIST, "extension.js")).size,
      bundleBytes: readdirSync(DIST, { recursive: true, encoding: "utf8" })
        .filter((name) => name.endsWith(".js"))
        .reduce((sum, name) => sum + statSync(path.join(DIST, name)).size, 0),
      vsixBytes: statSync(vsix()).size,
      cpus: cpus().length,
    };
  } catch (error) {
    server.keepLogs();
    throw error;
  } finally {
    await server.end();
  }
}

function table(figures: Figures): string {
  const { activation } = figures;
  const spreadRow = (what: string, { p50, p95 }: Spread): string[] => [what, `${p50} ms`, `${p95} ms`];
  const loadsRow = (what: string, { median, worst }: Loads): string[] => [what, `${median} ms`, `${worst} ms`];
  const rows = [
    ["", "p50", "p95"],
    spreadRow("key to results", figures.keyToResultsMs),
    ["  of it the pause after a key", `${figures.pauseMs} ms`, `${figures.pauseMs} ms`],
    spreadRow("  of it the daemon", figures.daemonMs),
    ["", "median", "worst"],
    loadsRow(`activation of Palace (goal ${GOAL_MS} ms)`, activation.palaceMs),
    loadsRow("  of it to read and compile", activation.compileMs),
    loadsRow("  of it to load", activation.loadMs),
    loadsRow("  of it to activate", activation.activateMs),
    ...Object.entries(activation.laterMs).map(([what, loads]) => loadsRow(`after it, ${what}`, loads)),
    loadsRow("activation as the editor tells it", activation.editorMs),
    [""],
    ["loaded when the editor starts", `${(figures.startingBytes / 1000).toFixed(1)} kB`],
    ["all files of the bundle", `${Math.round(figures.bundleBytes / 1000)} kB`],
    ["VSIX", `${Math.round(figures.vsixBytes / 1000)} kB`],
  ];
  const drawers = figures.drawers.toLocaleString("en-US");
  const asked = `${figures.questions} questions of together ${figures.keystrokes} keys, one each ${figures.keyEveryMs} ms, over ${drawers} drawers`;
  const where = `${activation.loads} loads of the window; ${figures.cpus} processors`;
  const line = ([what = "", ...values]: string[]): string => `${what.padEnd(36)}${values.map((one) => one.padStart(11)).join("")}`.trimEnd();
  return [`${asked}; ${where}`, "", ...rows.map(line)].join("\n");
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      drawers: { type: "string", default: "20000" },
      questions: { type: "string", default: "60" },
      loads: { type: "string", default: "10" },
      json: { type: "boolean", default: false },
    },
  });
  const figures = await measure({ drawers: Number(values.drawers), questions: Number(values.questions), loads: Number(values.loads) });
  console.log(values.json ? JSON.stringify(figures) : table(figures));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
