// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package footprint

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
)

// releaseStartup gives back the memory that only the start needed: free heap,
// and the pages of the program itself that were mapped on the way. The kernel
// maps 64 KiB of a program for each page that is touched, which for a program
// of this size comes to more than all data of an agent; what is touched again
// is mapped again from the page cache, without reading the disk.
//
// Only mappings that are not writable and of which no page differs from the
// file are released, so nothing can be lost.
func releaseStartup() error {
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("finding the program's own file: %w", err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("reading the program's own mappings: %w", err)
	}
	for _, m := range unchangedMappings(smaps, program) {
		_, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED)
		if errno != 0 {
			return fmt.Errorf("releasing pages of the program: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// unchangedMappings returns the mappings of a file that are private, not
// writable, and as the file has them.
func unchangedMappings(smaps []byte, file string) []mapping {
	var found []mapping
	var current *mapping
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 2 && strings.Contains(fields[0], "-"):
			current = nil
			if len(fields) >= 6 && fields[5] == file && (fields[1] == "r--p" || fields[1] == "r-xp") {
				current = parseMapping(fields[0])
			}
		case current != nil && len(fields) >= 2 && fields[0] == "Anonymous:":
			if fields[1] == "0" {
				found = append(found, *current)
			}
			current = nil
		}
	}
	return found
}

// parseMapping understands a range such as 00400000-00452000.
func parseMapping(text string) *mapping {
	from, to, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(from, 16, strconv.IntSize)
	if err != nil {
		return nil
	}
	end, err := strconv.ParseUint(to, 16, strconv.IntSize)
	if err != nil || end <= start {
		return nil
	}
	return &mapping{start: uintptr(start), end: uintptr(end)}
}
