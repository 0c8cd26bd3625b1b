-- Scripts that Redis and Valkey run: Lua 5.1 without the libraries that their sandbox lacks.
std = "lua51"
read_globals = { "redis", "struct", "KEYS", "ARGV" }
not_globals = { "io", "require", "module", "package", "dofile", "loadfile", "print" }
max_line_length = 120
