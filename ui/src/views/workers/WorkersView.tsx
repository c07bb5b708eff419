export function WorkersView() {
  return null;
}
