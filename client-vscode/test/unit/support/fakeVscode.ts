/**
 * A small `vscode` for testing src/ui in plain Node. Import it before what is to be tested:
 *
 *     import { editor } from "./support/fakeVscode";
 *     import { registerPalette } from "../../src/ui/palette";
 *
 * `editor` is what a person would see and do: pickers, messages, documents, the clipboard. It holds only what tests need;
 * whatever else a module under test asks of `vscode` fails loudly, since it is undefined.
 */

import Module from "node:module";

type Listener<T> = (value: T) => unknown;

export class Disposable {
  constructor(private readonly end: () => unknown = () => undefined) {}
  static from(...all: { dispose(): unknown }[]): Disposable {
    return new Disposable(() => {
      for (const one of all) one.dispose();
    });
  }
  dispose(): void {
    this.end();
  }
}

export class EventEmitter<T> {
  readonly #listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>, self?: unknown, into?: { dispose(): unknown }[]): Disposable => {
    const bound = (value: T): unknown => listener.call(self, value);
    this.#listeners.add(bound);
    const listening = new Disposable(() => this.#listeners.delete(bound));
    into?.push(listening);
    return listening;
  };
  get listenerCount(): number {
    return this.#listeners.size;
  }
  fire(value: T): void {
    for (const listener of [...this.#listeners]) listener(value);
  }
  dispose(): void {
    this.#listeners.clear();
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly authority: string,
    readonly path: string,
    readonly query: string,
    readonly fragment: string,
  ) {}
  static file(path: string): Uri {
    return new Uri("file", "", path, "", "");
  }
  static from(parts: { scheme: string; authority?: string; path?: string; query?: string; fragment?: string }): Uri {
    return new Uri(parts.scheme, parts.authority ?? "", parts.path ?? "", parts.query ?? "", parts.fragment ?? "");
  }
  static parse(text: string): Uri {
    const match = /^([^:/?#]+):(?:\/\/([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$/.exec(text);
    const at = (group: number): string => decodeURIComponent(match?.[group] ?? "");
    return new Uri(match?.[1] ?? "file", at(2), at(3), at(4), at(5));
  }
  get fsPath(): string {
    return this.path;
  }
  with(parts: { scheme?: string; path?: string; query?: string; fragment?: string }): Uri {
    const { scheme = this.scheme, path = this.path, query = this.query, fragment = this.fragment } = parts;
    return new Uri(scheme, this.authority, path, query, fragment);
  }
  toString(): string {
    const query = this.query ? `?${encodeURIComponent(this.query)}` : "";
    const path = this.path.split("/").map(encodeURIComponent).join("/");
    return `${this.scheme}:${this.authority ? `//${this.authority}` : ""}${path}${query}${this.fragment ? `#${this.fragment}` : ""}`;
  }
}

export class Position {
  constructor(
    readonly line: number,
    readonly character: number,
  ) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(start: Position | number, end: Position | number, endLine?: number, endCharacter?: number) {
    this.start = typeof start === "number" ? new Position(start, end as number) : start;
    this.end = typeof start === "number" ? new Position(endLine ?? 0, endCharacter ?? 0) : (end as Position);
  }
  get isEmpty(): boolean {
    return this.start.line === this.end.line && this.start.character === this.end.character;
  }
}

export class Selection extends Range {
  get active(): Position {
    return this.end;
  }
}

export class ThemeColor {
  constructor(readonly id: string) {}
}

export class ThemeIcon {
  constructor(
    readonly id: string,
    readonly color?: ThemeColor,
  ) {}
}

export class MarkdownString {
  isTrusted: unknown;
  supportThemeIcons = false;
  constructor(public value = "") {}
  appendMarkdown(text: string): this {
    this.value += text;
    return this;
  }
  appendText(text: string): this {
    this.value += text;
    return this;
  }
}

export class TreeItem {
  [key: string]: unknown;
  constructor(
    readonly label: unknown,
    readonly collapsibleState = 0,
  ) {}
}

export class DocumentLink {
  tooltip?: string;
  constructor(
    readonly range: Range,
    readonly target?: Uri,
  ) {}
}

export interface FakeItem {
  label: string;
  kind?: number;
  description?: string;
  detail?: string;
  iconPath?: { id: string };
  alwaysShow?: boolean;
  buttons?: readonly { tooltip?: string }[];
}

/** What `createQuickPick` returns, with what a person can do to it. */
export class FakeQuickPick {
  items: readonly FakeItem[] = [];
  activeItems: readonly FakeItem[] = [];
  selectedItems: readonly FakeItem[] = [];
  buttons: readonly { tooltip?: string }[] = [];
  title: string | undefined;
  placeholder: string | undefined;
  busy = false;
  enabled = true;
  ignoreFocusOut = false;
  keepScrollPosition = false;
  matchOnDescription = false;
  matchOnDetail = false;
  isVisible = false;
  isDisposed = false;
  /** Every change of `busy`, in order. */
  readonly busyTold: boolean[] = [];
  #value = "";
  readonly #valueChanged = new EventEmitter<string>();
  readonly #accepted = new EventEmitter<void>();
  readonly #hidden = new EventEmitter<void>();
  readonly #button = new EventEmitter<{ tooltip?: string }>();
  readonly #itemButton = new EventEmitter<{ item: FakeItem; button: { tooltip?: string } }>();
  readonly onDidChangeValue = this.#valueChanged.event;
  readonly onDidAccept = this.#accepted.event;
  readonly onDidHide = this.#hidden.event;
  readonly onDidTriggerButton = this.#button.event;
  readonly onDidTriggerItemButton = this.#itemButton.event;

  get value(): string {
    return this.#value;
  }
  /** Setting it by program is told back, as the real one does. */
  set value(value: string) {
    const isNew = value !== this.#value;
    this.#value = value;
    if (isNew && this.isVisible) this.#valueChanged.fire(value);
  }
  show(): void {
    this.isVisible = true;
  }
  hide(): void {
    if (!this.isVisible) return;
    this.isVisible = false;
    this.#hidden.fire();
  }
  dispose(): void {
    this.hide();
    this.isDisposed = true;
  }

  /** Types, as if the whole value were written anew. */
  type(value: string): void {
    this.#value = value;
    this.#valueChanged.fire(value);
  }
  accept(label?: string): void {
    const item = label === undefined ? this.items.find((one) => one.kind !== -1) : this.row(label);
    this.activeItems = this.selectedItems = item ? [item] : [];
    this.#accepted.fire();
  }
  /** Enter, with what is selected now. */
  acceptAsIs(): void {
    this.#accepted.fire();
  }
  press(tooltip: string | RegExp): void {
    const found = this.buttons.find((one) => matches(one.tooltip, tooltip));
    if (!found) throw new Error(`no button ${String(tooltip)} among: ${this.buttons.map((one) => one.tooltip).join("; ")}`);
    this.#button.fire(found);
  }
  pressOn(label: string, tooltip: string | RegExp): void {
    const item = this.row(label);
    const found = item.buttons?.find((one) => matches(one.tooltip, tooltip));
    if (!found) throw new Error(`no button ${String(tooltip)} on the row ${label}`);
    this.#itemButton.fire({ item, button: found });
  }
  row(label: string): FakeItem {
    const found = this.items.find((one) => one.label === label);
    if (!found) throw new Error(`no row ${label} among: ${this.items.map((one) => one.label).join("; ")}`);
    return found;
  }
  /** Labels of the rows, without separators. */
  get labels(): string[] {
    return this.items.filter((one) => one.kind !== -1).map((one) => one.label);
  }
}

function matches(text: string | undefined, wanted: string | RegExp): boolean {
  return text !== undefined && (typeof wanted === "string" ? text === wanted : wanted.test(text));
}

/** What happened to the editor, and what a person answers. */
export const editor = {
  quickPicks: [] as FakeQuickPick[],
  messages: [] as { kind: "information" | "warning" | "error"; text: string; buttons: string[]; detail: string | undefined }[],
  /** Answers to messages, quick picks and input boxes, in order; with none left they are dismissed. */
  answers: [] as unknown[],
  statusMessages: [] as string[],
  clipboard: "",
  commands: new Map<string, (...given: unknown[]) => unknown>(),
  /** Commands that were run but that nobody registered. */
  ran: [] as { command: string; given: unknown[] }[],
  /** Commands of the editor itself that exist. */
  builtIn: new Set<string>(),
  context: new Map<string, unknown>(),
  settings: new Map<string, unknown>(),
  activeTextEditor: undefined as unknown,
  workspaceFolders: undefined as unknown,
  textDocuments: [] as { uri: Uri; getText(): string }[],
  shown: [] as { target: unknown; options: unknown }[],
  contentProviders: new Map<string, unknown>(),
  linkProviders: [] as unknown[],
  readOnlySchemes: new Set<string>(),
  /** Whether the window is the one in front. */
  isFocused: true,
  trustGranted: new EventEmitter<void>(),
  configurationChanged: new EventEmitter<{ affectsConfiguration(section: string): boolean }>(),

  get quickPick(): FakeQuickPick {
    const newest = this.quickPicks.at(-1);
    if (!newest) throw new Error("no quick pick was made");
    return newest;
  },
  reset(): void {
    for (const list of [this.quickPicks, this.messages, this.answers, this.statusMessages, this.ran, this.textDocuments, this.shown, this.linkProviders]) {
      list.length = 0;
    }
    for (const known of [this.commands, this.builtIn, this.context, this.settings, this.contentProviders, this.readOnlySchemes]) known.clear();
    this.clipboard = "";
    this.isFocused = true;
    this.activeTextEditor = this.workspaceFolders = undefined;
  },
};

function message(kind: "information" | "warning" | "error") {
  return (text: string, ...rest: unknown[]): Promise<unknown> => {
    const [first] = rest;
    const options = typeof first === "object" && first !== null && !("title" in first) ? (rest.shift() as { detail?: string }) : undefined;
    const buttons = rest.map((one) => (typeof one === "string" ? one : (one as { title: string }).title));
    editor.messages.push({ kind, text, buttons, detail: options?.detail });
    const answer = editor.answers.shift();
    return Promise.resolve(rest.find((_one, at) => buttons[at] === answer));
  };
}

export const api = {
  Disposable,
  EventEmitter,
  Uri,
  Position,
  Range,
  Selection,
  ThemeColor,
  ThemeIcon,
  MarkdownString,
  TreeItem,
  DocumentLink,
  QuickPickItemKind: { Separator: -1, Default: 0 },
  QuickInputButtons: { Back: { tooltip: "Back", iconPath: new ThemeIcon("quick-input-back") } },
  StatusBarAlignment: { Left: 1, Right: 2 },
  TreeItemCollapsibleState: { None: 0, Collapsed: 1, Expanded: 2 },
  TextEditorRevealType: { Default: 0, InCenter: 1, InCenterIfOutsideViewport: 2, AtTop: 3 },
  ConfigurationTarget: { Global: 1 },
  ProgressLocation: { SourceControl: 1, Window: 10, Notification: 15 },
  version: "1.90.0",
  window: {
    createQuickPick(): FakeQuickPick {
      const made = new FakeQuickPick();
      let busy = false;
      Object.defineProperty(made, "busy", {
        get: () => busy,
        set: (value: boolean) => {
          if (value !== busy) made.busyTold.push(value);
          busy = value;
        },
      });
      editor.quickPicks.push(made);
      return made;
    },
    showQuickPick: (items: unknown): Promise<unknown> =>
      Promise.resolve(items).then((list) => {
        const answer = editor.answers.shift();
        return (list as { label: string }[]).find((one) => one === answer || one.label === answer);
      }),
    showInputBox: (): Promise<unknown> => Promise.resolve(editor.answers.shift()),
    showInformationMessage: message("information"),
    showWarningMessage: message("warning"),
    showErrorMessage: message("error"),
    setStatusBarMessage(text: string): Disposable {
      editor.statusMessages.push(text);
      return new Disposable();
    },
    showTextDocument(target: unknown, options: unknown): Promise<unknown> {
      editor.shown.push({ target, options });
      return Promise.resolve({ revealRange: () => undefined });
    },
    get activeTextEditor(): unknown {
      return editor.activeTextEditor;
    },
    get state(): { focused: boolean } {
      return { focused: editor.isFocused };
    },
  },
  workspace: {
    get workspaceFolders(): unknown {
      return editor.workspaceFolders;
    },
    get textDocuments(): unknown {
      return editor.textDocuments;
    },
    getWorkspaceFolder: (uri: Uri): unknown =>
      (editor.workspaceFolders as { uri: Uri }[] | undefined)?.find((one) => uri.path === one.uri.path || uri.path.startsWith(`${one.uri.path}/`)),
    getConfiguration: (section: string): unknown => ({
      get: (name: string, otherwise: unknown) => (editor.settings.has(`${section}.${name}`) ? editor.settings.get(`${section}.${name}`) : otherwise),
    }),
    onDidChangeConfiguration: editor.configurationChanged.event,
    onDidGrantWorkspaceTrust: editor.trustGranted.event,
    registerTextDocumentContentProvider(scheme: string, provider: unknown): Disposable {
      editor.contentProviders.set(scheme, provider);
      return new Disposable(() => editor.contentProviders.delete(scheme));
    },
    openTextDocument: (uri: unknown): Promise<unknown> => Promise.resolve({ uri }),
    fs: { isWritableFileSystem: (scheme: string): boolean => !editor.readOnlySchemes.has(scheme) },
  },
  languages: {
    registerDocumentLinkProvider(_selector: unknown, provider: unknown): Disposable {
      editor.linkProviders.push(provider);
      return new Disposable();
    },
  },
  commands: {
    registerCommand(name: string, run: (...given: unknown[]) => unknown): Disposable {
      if (editor.commands.has(name)) throw new Error(`command ${name} is registered twice`);
      editor.commands.set(name, run);
      return new Disposable(() => editor.commands.delete(name));
    },
    executeCommand(command: string, ...given: unknown[]): Promise<unknown> {
      const run = editor.commands.get(command);
      if (command === "setContext") editor.context.set(given[0] as string, given[1]);
      else if (!run) editor.ran.push({ command, given });
      return Promise.resolve(run?.(...given));
    },
    getCommands: (): Promise<string[]> => Promise.resolve([...editor.commands.keys(), ...editor.builtIn]),
  },
  extensions: { getExtension: (): unknown => undefined },
  env: {
    clipboard: {
      writeText(text: string): Promise<void> {
        editor.clipboard = text;
        return Promise.resolve();
      },
      readText: (): Promise<string> => Promise.resolve(editor.clipboard),
    },
    remoteName: undefined,
  },
};

/** Says what a command does, as the parts are given it; here it is registered in the same breath. */
export function command(name: string, run: (argument: unknown) => unknown): Disposable {
  return api.commands.registerCommand(name, run);
}

interface Loader {
  _load(request: string, parent: unknown, isMain: boolean): unknown;
}
const loader = Module as unknown as Loader;
const load = loader._load.bind(Module);
loader._load = (request, parent, isMain) => (request === "vscode" ? api : load(request, parent, isMain));

export { settled } from "./settled";
