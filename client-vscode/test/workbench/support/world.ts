/** A machine of its own for scenarios: home, memory, sockets, editor's files and a project, all in one directory. */

import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { promisify } from "node:util";

import { models, python, REPOSITORY } from "./installed.ts";

const SAMPLES = path.join(REPOSITORY, "server", "palace_daemon", "samples");
/** Where the samples' sessions took place. */
const SAMPLES_PROJECT = "/home/sam/tidepool";
/** Names the world in the environment of every process that is started in it. */
const MARK = "PALACE_WORLD";

export type Settings = Record<string, unknown>;

export interface WorldOptions {
  /** Whether the samples lie where the agents would have written them. */
  readonly hasTranscripts?: boolean;
  /** Whether they keep the project that they name, which is not that of the window. */
  readonly keepsProject?: boolean;
  /** Settings of the user, besides those that keep the editor quiet. */
  readonly settings?: Settings;
  /** Settings of the machine: paths and programs. */
  readonly machine?: Settings;
  /** Puts a store into the directory given; without it the memory is empty. */
  readonly memory?: (directory: string) => void;
}

const QUIET: Settings = {
  "workbench.startupEditor": "none",
  "workbench.tips.enabled": false,
  "workbench.editor.useModal": "off", // newer ones would show settings.json above the window
  "workbench.secondarySideBar.defaultVisibility": "hidden", // where newer ones show the chat
  "workbench.colorTheme": "Default Dark Modern",
  "telemetry.telemetryLevel": "off",
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "chat.commandCenter.enabled": false,
  "window.commandCenter": false,
  "files.simpleDialog.enable": true,
  "git.enabled": false,
  "editor.minimap.enabled": false,
  "editor.lightbulb.enabled": "off",
  "editor.renderWhitespace": "none",
};

export class World {
  readonly root = realpathSync(mkdtempSync(path.join(tmpdir(), "pw-"))); // short: sockets have 103 bytes
  readonly home = path.join(this.root, "home");
  readonly memory = path.join(this.root, "memory");
  readonly runtime = path.join(this.root, "run");
  readonly project = path.join(this.home, "tidepool");
  readonly userData = path.join(this.root, "code");
  readonly extensions = path.join(this.root, "extensions");
  readonly python = python();
  readonly env: NodeJS.ProcessEnv;
  #user: Settings;
  #machine: Settings;

  constructor(options: WorldOptions = {}) {
    for (const directory of [this.home, this.project, this.extensions]) mkdirSync(directory, { recursive: true });
    mkdirSync(this.runtime, { mode: 0o700 });
    this.env = environment(this);
    this.#user = { ...QUIET, ...options.settings };
    this.#machine = { "palace.python": this.python, ...options.machine };
    write(path.join(this.userData, "User", "settings.json"), this.changed({}, "user"));
    write(path.join(this.userData, "Machine", "settings.json"), this.changed({}, "machine"));
    writeFileSync(path.join(this.project, "notes.md"), NOTES);
    if (options.hasTranscripts ?? true) this.#copySamples(options.keepsProject ? SAMPLES_PROJECT : this.project);
    options.memory?.(this.memory);
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void this.end().finally(() => process.exit(1)));
  }

  /** The text of settings.json with the changes; a person, or the constructor, puts it there. */
  changed(changes: Settings, scope: "machine" | "user"): string {
    if (scope === "user") this.#user = { ...this.#user, ...changes };
    else this.#machine = { ...this.#machine, ...changes };
    return `${JSON.stringify(scope === "user" ? this.#user : this.#machine, undefined, 2)}\n`;
  }

  /** Where Claude Code would write the sessions of the project. */
  get claudeDirectory(): string {
    return path.join(this.home, ".claude", "projects", this.project.replaceAll(/[^A-Za-z0-9]/g, "-"));
  }

  /** Runs a command of palace-daemon in this world and returns what it prints. */
  async palace(...args: string[]): Promise<string> {
    return await this.palaceWith(this.env, ...args);
  }

  /** The same with another environment. */
  async palaceWith(env: NodeJS.ProcessEnv, ...args: string[]): Promise<string> {
    return (await promisify(execFile)(this.python, ["-m", "palace_daemon", ...args], { env, cwd: this.project })).stdout;
  }

  /** The ids of the processes that were started in this world and still run. */
  processes(): number[] {
    return readdirSync("/proc").filter((name) => /^\d+$/.test(name) && belongs(name, this.root)).map(Number);
  }

  /** The words of the command lines of those processes. */
  commandLines(): string[][] {
    return this.processes().map((pid) => wordsOf(pid)).filter((words) => words.length > 0);
  }

  /** Ends every process of this world, and removes its files. */
  async end(): Promise<void> {
    for (let attempt = 0; this.processes().length > 0 && attempt < 50; attempt++) {
      for (const pid of this.processes()) kill(pid);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5 });
  }

  #copySamples(project: string): void {
    copyTexts(path.join(SAMPLES, "claude-code", "-home-sam-tidepool"), this.claudeDirectory, project);
    copyTexts(path.join(SAMPLES, "codex"), path.join(this.home, ".codex", "sessions"), project);
  }
}

const NOTES = `# Notes

Why is the database locked at night?
The tide gauge of Brest sends its readings every ten minutes.

`;

/** Nothing of this user's own editor, agents or Palace reaches the world. */
function environment(world: World): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => !/^(XDG_|PALACE_|VSCODE_|CLAUDE|CODEX|NODE_TEST|NODE_OPTIONS)/.test(name));
  return {
    ...Object.fromEntries(kept),
    HOME: world.home,
    XDG_RUNTIME_DIR: world.runtime,
    PALACE_HOME: world.memory,
    PALACE_MODELS: models(),
    [MARK]: world.root,
  };
}

function copyTexts(from: string, to: string, project: string): void {
  cpSync(from, to, { recursive: true });
  for (const name of readdirSync(to, { recursive: true, encoding: "utf8" })) {
    const file = path.join(to, name);
    if (!/\.jsonl?$/.test(file)) continue;
    writeFileSync(file, readFileSync(file, "utf8").replaceAll(SAMPLES_PROJECT, project));
  }
}

function write(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

function wordsOf(pid: number): string[] {
  try {
    return readFileSync(path.join("/proc", String(pid), "cmdline"), "utf8").split("\0").slice(0, -1);
  } catch {
    return []; // it ended meanwhile
  }
}

function belongs(pid: string, root: string): boolean {
  try {
    return readFileSync(path.join("/proc", pid, "environ"), "latin1").split("\0").includes(`${MARK}=${root}`);
  } catch {
    return false; // it ended meanwhile, or is another user's
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it ended meanwhile
  }
}
