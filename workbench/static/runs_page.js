
// The page of runs: the choice is kept in the address, so that it survives a reload and can be shared.
class Kept extends Model {
  save_changes() {
    const { data, ...choice } = this.state;
    history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify(choice))}`);
  }
}
const kept = (state) => {
  let choice = {};
  try { choice = JSON.parse(decodeURIComponent(location.hash.slice(1))) || {}; } catch { /* not one of ours */ }
  const fits = (name) => name !== "data" && typeof choice[name] === typeof state[name] && Array.isArray(choice[name]) === Array.isArray(state[name]);
  return { ...state, ...Object.fromEntries(Object.entries(choice).filter(([name]) => name in state && fits(name))) };
};
