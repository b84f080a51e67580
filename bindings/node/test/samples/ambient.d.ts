// As much of Node's own types as the samples need, so that nothing has to be installed to check them.
declare const process: {
  env: Record<string, string | undefined>;
  pid: number;
  kill(pid: number, signal: string): void;
  exit(code?: number): never;
  on(event: string, listener: () => void): void;
};
declare function require(name: string): any;
declare const Buffer: { byteLength(text: string): number };

declare module 'assert' {
  function assert(value: unknown): asserts value;
  namespace assert {
    function match(text: string, pattern: RegExp): void;
    function strictEqual(actual: unknown, expected: unknown): void;
  }
  export = assert;
}

declare module 'net' {
  interface Socket {
    on(event: string, listener: (data: unknown) => void): void;
    write(text: string): void;
    end(): void;
  }
  function connect(port: number, host: string): Socket;
}
