/** More of the fake editor, for views, the status bar, notifications with progress and picks that are answered; and a fake daemon behind `Palace`. */

import { api, command, type Disposable, editor, EventEmitter } from "./fakeVscode";
import type { Answer, EventName, MethodName, Params, RequestOptions } from "../../../src/core/connection";
import type { Palace, State } from "../../../src/core/palace";
import type { Notifications } from "../../../src/core/protocol";
import type { Parts } from "../../../src/ui/parts";

export interface FakeBar {
  text: string;
  tooltip: { value: string; isTrusted: unknown } | undefined;
  backgroundColor: { id: string } | undefined;
  command: string | undefined;
  isVisible: boolean;
  show(): void;
  hide(): void;
  dispose(): void;
}

export interface FakeProgress {
  readonly title: string;
  readonly location: number;
  readonly reports: { message?: string; increment?: number }[];
  isOver: boolean;
  cancel(): void;
}

interface Row {
  readonly label: string;
  readonly picked?: boolean;
}

interface View {
  message: string | undefined;
  readonly options: { readonly treeDataProvider: unknown };
  dispose(): void;
}

export const window = {
  bars: [] as FakeBar[],
  progress: [] as FakeProgress[],
  views: [] as View[],
  /** Rows and title of each `showQuickPick`. */
  picks: [] as { rows: readonly Row[]; title: string | undefined; placeHolder: string | undefined }[],
  foldersChanged: new EventEmitter<undefined>(),
  reset(): void {
    editor.reset();
    for (const list of [this.bars, this.progress, this.views, this.picks]) list.length = 0;
  },
};

/** Answers a pick with every row that is ticked from the start, except those with these labels. */
export function allBut(...labels: string[]): (rows: readonly Row[]) => readonly Row[] {
  return (rows) => rows.filter((one) => one.picked === true && !labels.includes(one.label));
}

Object.assign(api.window, {
  createStatusBarItem(): FakeBar {
    const bar: FakeBar = {
      text: "",
      tooltip: undefined,
      backgroundColor: undefined,
      command: undefined,
      isVisible: false,
      show() {
        bar.isVisible = true;
      },
      hide() {
        bar.isVisible = false;
      },
      dispose() {
        bar.isVisible = false;
      },
    };
    window.bars.push(bar);
    return bar;
  },
  createTreeView(_id: string, options: View["options"]): View {
    const view: View = { message: undefined, options, dispose: () => undefined };
    window.views.push(view);
    return view;
  },
  withProgress(
    options: { title: string; location: number },
    task: (report: { report(value: { message?: string; increment?: number }): void }, token: unknown) => Promise<unknown>,
  ): Promise<unknown> {
    const cancelled = new EventEmitter<void>();
    const shown: FakeProgress = {
      title: options.title,
      location: options.location,
      reports: [],
      isOver: false,
      cancel: () => {
        cancelled.fire();
      },
    };
    window.progress.push(shown);
    const report = {
      report: (value: { message?: string; increment?: number }): void => {
        shown.reports.push(value);
      },
    };
    // As in the editor, the task begins a moment later.
    return Promise.resolve()
      .then(() => task(report, { onCancellationRequested: cancelled.event }))
      .finally(() => {
        shown.isOver = true;
      });
  },
  async showQuickPick(items: readonly Row[] | Promise<readonly Row[]>, options?: { title?: string; placeHolder?: string }): Promise<unknown> {
    const rows = await items;
    window.picks.push({ rows, title: options?.title, placeHolder: options?.placeHolder });
    const answer = editor.answers.shift();
    if (typeof answer === "function") return (answer as (given: readonly Row[]) => unknown)(rows);
    if (answer === undefined) return undefined;
    const found = rows.find((one) => one.label === answer);
    if (!found) throw new Error(`no row ${JSON.stringify(answer)} among: ${rows.map((one) => one.label).join("; ")}`);
    return found;
  },
});
Object.assign(api.workspace, { onDidChangeWorkspaceFolders: window.foldersChanged.event });

type Handlers = { [M in MethodName]?: (params: Params<M>, options: RequestOptions) => Answer<M> | Promise<Answer<M>> };

/** A daemon that answers as it is told to, and remembers what it was asked. */
export class FakePalace implements Palace {
  state: State = { kind: "ready", version: "0.1.0", dataDirectory: "/data" };
  readonly asked: { readonly method: MethodName; readonly params: unknown }[] = [];
  readonly #states = new EventEmitter<State>();
  readonly #events = new Map<EventName, EventEmitter<unknown>>();

  constructor(readonly handlers: Handlers = {}) {}

  async request<M extends MethodName>(method: M, params: Params<M>, options: RequestOptions = {}): Promise<Answer<M>> {
    this.asked.push({ method, params });
    const handler = this.handlers[method] as ((params: Params<M>, options: RequestOptions) => Answer<M> | Promise<Answer<M>>) | undefined;
    if (!handler) throw new Error(`nobody expected ${method}`);
    return await handler(params, options);
  }
  onDidChangeState(listener: (state: State) => void): Disposable {
    return this.#states.event(listener);
  }
  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): Disposable {
    const emitter = this.#events.get(event) ?? new EventEmitter<unknown>();
    this.#events.set(event, emitter);
    return emitter.event(listener as (told: unknown) => void);
  }
  restart(): Promise<void> {
    return Promise.resolve();
  }

  become(state: State): void {
    this.state = state;
    this.#states.fire(state);
  }
  tell<E extends EventName>(event: E, told: Notifications[E]): void {
    this.#events.get(event)?.fire(told);
  }
  paramsOf(method: MethodName): unknown[] {
    return this.asked.filter((one) => one.method === method).map((one) => one.params);
  }
}

/** What a part of the editor is given, with the settings as package.json has them. */
export function partsOf(palace: Palace, sessionsLimit = 200): Parts {
  const log = { warn: () => undefined, debug: () => undefined, info: () => undefined, error: () => undefined };
  return {
    palace,
    log,
    command,
    settings: () => ({ statusBar: editor.settings.get("palace.statusBar") !== false, sessionsLimit }),
  } as unknown as Parts;
}
