/** VS Code's server with the extension installed from its VSIX, and the windows that browsers open on it. */

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, openSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import * as path from "node:path";

import { type Browser, type BrowserContext, chromium } from "playwright-core";

import { EXTENSION, installed, type Installed, OUT, vsix } from "./installed.ts";
import { type OwnExtension, packed } from "./ownExtension.ts";
import { until } from "./waiting.ts";
import { Workbench } from "./workbench.ts";
import { World, type WorldOptions } from "./world.ts";

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--lang=en-US"];
const SIZE = { width: 1280, height: 800 };

export interface StartOptions extends WorldOptions {
  /** An extension of our own beside Palace's. */
  readonly beside?: OwnExtension;
}

export interface OpenOptions {
  readonly folder?: string;
}

/** One world with its editor; `end` leaves nothing behind but logs and screenshots. */
export class CodeServer {
  readonly #windows: Workbench[] = [];

  private constructor(
    readonly world: World,
    readonly tools: Installed,
    readonly port: number,
    private readonly process: ChildProcess,
    private readonly context: BrowserContext,
    private readonly browser: Browser,
    private readonly name: string,
  ) {}

  /** Starts all of it; `name` is that of the logs in out/logs. */
  static async start(name: string, options: StartOptions = {}): Promise<CodeServer> {
    const tools = installed();
    const world = new World(options);
    try {
      install(world, tools, [vsix(), ...(options.beside ? [packed(options.beside, world.root)] : [])]);
      const port = await freePort();
      const started = launch(world, tools, port);
      const browser = await chromium.launch({ executablePath: tools.chromium, args: FLAGS, env: { ...world.env, ...fonts() } });
      const context = await browser.newContext({ viewport: SIZE, locale: "en-US", permissions: ["clipboard-read", "clipboard-write"] });
      const server = new CodeServer(world, tools, port, started, context, browser, name);
      await until("the editor's server answers", async () => (await fetch(`${server.address}/healthz`)).ok);
      return server;
    } catch (error) {
      await world.end();
      throw error;
    }
  }

  get address(): string {
    return `http://127.0.0.1:${String(this.port)}`;
  }

  /** Opens a window of the editor on the world's project. */
  async open(options: OpenOptions = {}): Promise<Workbench> {
    const query = new URLSearchParams({ folder: options.folder ?? this.world.project });
    const workbench = await Workbench.open(await this.context.newPage(), `${this.address}/?${query.toString()}`);
    this.#windows.push(workbench);
    return workbench;
  }

  /** Runs a scenario; where it fails, pictures of the windows and the logs stay in out/. */
  async scenario(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      for (const [index, window] of this.#windows.entries()) await window.screenshot(`failed-${name}-${index + 1}`).catch(() => undefined);
      this.keepLogs();
      throw error;
    }
  }

  keepLogs(): void {
    const kept = path.join(OUT, "logs", this.name);
    rmSync(kept, { recursive: true, force: true });
    const [world, logs] = [this.world, path.join(this.world.home, ".local", "state", "palace")];
    for (const [from, to] of [[path.join(world.userData, "logs"), "code"], [logs, "palace"], [path.join(world.root, "server.log"), "server.log"]] as const) {
      if (existsSync(from)) cpSync(from, path.join(kept, to), { recursive: true });
    }
  }

  async end(): Promise<void> {
    await this.browser.close().catch(() => undefined);
    this.process.kill();
    await this.world.end();
  }
}

function install(world: World, tools: Installed, files: readonly string[]): void {
  const wanted = files.flatMap((file) => ["--install-extension", file]);
  execFileSync(tools.node, [tools.entry, ...directories(world), ...wanted], { env: world.env, stdio: "pipe" });
}

function directories(world: World): string[] {
  return ["--extensions-dir", world.extensions, "--user-data-dir", world.userData];
}

function launch(world: World, tools: Installed, port: number): ChildProcess {
  const log = openSync(path.join(world.root, "server.log"), "a");
  const quiet = ["--disable-telemetry", "--disable-update-check", "--disable-workspace-trust", "--disable-getting-started-override"];
  const args = [tools.entry, "--auth", "none", "--bind-addr", `127.0.0.1:${String(port)}`, ...quiet, ...directories(world)];
  return spawn(tools.node, args, { env: world.env, cwd: world.root, stdio: ["ignore", log, log] });
}

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, "127.0.0.1", resolve));
  const { port } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

/** A font that looks as on a desktop, where it is installed. */
function fonts(): Record<string, string> {
  return { FONTCONFIG_FILE: path.join(EXTENSION, "test", "workbench", "support", "fonts.conf") };
}

mkdirSync(OUT, { recursive: true });
