-- Redis and Valkey run the scripts with Lua 5.1, without some of its libraries.
std = "lua51"
read_globals = { "redis", "struct", "KEYS", "ARGV" }
not_globals = { "io", "require", "module", "package", "dofile", "loadfile", "print" }
max_line_length = 120
