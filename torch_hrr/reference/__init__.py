"""Every operator in plain torch: the readable definition, the benchmarks' peer, and the fallback of other devices."""
