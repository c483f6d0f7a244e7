// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lua interprets objects by scripts that users write: those of
// ResourceInterpreterCustomizations.
//
// A script is untrusted. It reads and returns values as they are decoded from
// JSON, and reaches nothing else: there are no files, no environment, no
// processes, no modules but "kube", nothing that compiles text, and nothing that
// stays from one run to the next. What it may use is limited, each time that it
// runs: steps, time, memory, the size of a text, the depth of calls. A run that
// fails, for whatever reason, is an error that names the line.
//
// gopher-lua, which runs the scripts, has no such limits but for time, and some of
// its instructions do any amount of work: they join texts, make lists longer, match
// patterns. So scripts are changed before they are compiled: these instructions
// become calls of functions that count first (guard.go), and those of the standard
// libraries that could do so are our own.
package lua
