export function CostsView() {
  return null;
}
