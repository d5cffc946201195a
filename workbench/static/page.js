// A model for views without a kernel: values with listeners.

class Model {
  constructor(state) { this.state = state; this.listeners = {}; }
  get(name) { return this.state[name]; }
  set(name, value) { this.state[name] = value; }
  save_changes() {}
  send() {}
  on(names, act) { for (const name of names.split(" ")) (this.listeners[name] ||= []).push(act); }
  off() {}
}
