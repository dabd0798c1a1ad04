// An inline function outside every instruction set's namespace: what check_symbols.py exists to find.
template <typename T>
[[gnu::noinline]] T twice(T x) {
  return x + x;
}

float use_twice(float x) {
  return twice(x);
}
