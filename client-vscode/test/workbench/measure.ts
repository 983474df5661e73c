/**
 * Figures of the extension in the real workbench: from a key to the results, activation, sizes.
 *
 *   npm run measure                    a store of 20,000 drawers
 *   npm run measure -- --drawers 1000  a smaller one
 *
 * The store is made by `palace-daemon --bench scale` and kept in ~/.cache/palace/workbench/stores. Standard output has one
 * JSON document, standard error a table. The time begins with the event of the last key and ends with the last change of
 * the list; the pause that Recall makes after a key (palace.recall.delayMs) is in it.
 */

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { cpus, homedir } from "node:os";
import * as path from "node:path";
import { parseArgs } from "node:util";

import { CodeServer } from "./support/codeServer.ts";
import { EXTENSION, models, python, vsix } from "./support/installed.ts";
import { until } from "./support/waiting.ts";
import type { Workbench } from "./support/workbench.ts";

const QUIET_MS = 400;
const KEY_EVERY_MS = 70;
const WINDOWS = 5;

interface Figures {
  readonly drawers: number;
  readonly questions: number;
  readonly delayMs: number;
  readonly keyToResultsMs: { readonly p50: number; readonly p95: number };
  /** Of `activate`, as Developer: Show Running Extensions tells; the middle of several windows. */
  readonly activationMs: number;
  readonly bundleBytes: number;
  readonly vsixBytes: number;
  readonly cpus: number;
}

/** Makes the store where it is not kept yet, and returns its directory. */
function storeOf(drawers: number): string {
  const base = process.env.PALACE_WORKBENCH ?? path.join(process.env.XDG_CACHE_HOME ?? path.join(homedir(), ".cache"), "palace", "workbench");
  const stores = path.join(base, "stores");
  mkdirSync(stores, { recursive: true });
  const kept = (): string | undefined => readdirSync(stores).find((name) => new RegExp(`^\\d+-\\d+-\\d+-${drawers}-[^.]+$`).test(name));
  if (kept() === undefined) {
    process.stderr.write(`making a store of ${drawers} drawers in ${stores}; with 20,000 this takes some minutes, once\n`);
    const args = ["-m", "palace_daemon", "--bench", "scale", "--drawers", `${drawers}`, "--queries", "5", "--clients", "1", "--real", "200", "--no-rebuild", "--stores", stores];
    execFileSync(python(), args, { env: { ...process.env, PALACE_MODELS: models() }, stdio: ["ignore", "ignore", "inherit"] });
  }
  return path.join(stores, kept() ?? "");
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

async function activationMs(window: Workbench): Promise<number> {
  await window.command("Developer: Show Running Extensions");
  const row = window.page.locator(".runtime-extensions-editor .extension").filter({ hasText: /Palace/ }).first();
  const told = await until("the editor tells how long it took", async () => /Activation: (\d+)ms/.exec(await row.innerText())?.[1]);
  return Number(told);
}

function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((one, other) => one - other);
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? NaN);
}

async function measure(drawers: number, wanted: number): Promise<Figures> {
  const store = storeOf(drawers);
  const questions = questionsOf(store, wanted);
  const server = await CodeServer.start("measure", { hasTranscripts: false, memory: (directory) => { cpSync(store, directory, { recursive: true }); } });
  try {
    const activations: number[] = [];
    for (let index = 1; index < WINDOWS; index++) {
      const window = await server.open();
      await window.untilStatus(/^\d/);
      activations.push(await activationMs(window));
      await window.close();
    }
    const window = await server.open();
    await window.untilStatus(/^\d/);
    activations.push(await activationMs(window));
    await window.command("Palace: Recall…");
    await until("Recall lists something", async () => (await window.rows()).length > 1);
    await observe(window);
    const times: number[] = [];
    for (const [index, question] of questions.entries()) {
      const ms = await keyToResults(window, question);
      if (index > 0) times.push(ms); // the first loads the model
    }
    return {
      drawers,
      questions: times.length,
      delayMs: 120,
      keyToResultsMs: { p50: quantile(times, 0.5), p95: quantile(times, 0.95) },
      activationMs: quantile(activations, 0.5),
      bundleBytes: statSync(path.join(EXTENSION, "dist/extension.js")).size,
      vsixBytes: statSync(vsix()).size,
      cpus: cpus().length,
    };
  } finally {
    await server.end();
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { drawers: { type: "string", default: "20000" }, questions: { type: "string", default: "60" } } });
  const figures = await measure(Number(values.drawers), Number(values.questions));
  console.log(JSON.stringify(figures, undefined, 1));
  const { p50, p95 } = figures.keyToResultsMs;
  const rows = [
    ["key to results, p50", `${p50} ms`],
    ["key to results, p95", `${p95} ms`],
    ["activation", `${figures.activationMs} ms`],
    ["bundle", `${Math.round(figures.bundleBytes / 1000)} kB`],
    ["VSIX", `${Math.round(figures.vsixBytes / 1000)} kB`],
  ] as const;
  process.stderr.write(rows.map(([what, value]) => `${what.padEnd(22)}${value.padStart(10)}\n`).join(""));
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
