// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCommandsInTheDocsExist compares the commands that users are given to type
// with the targets of the Makefile and the commands of capstan.
func TestCommandsInTheDocsExist(t *testing.T) {
	targets := matches(t, regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`), append(glob(t, "../hack/make/*.mk"), "../Makefile")...)
	commands := matches(t, regexp.MustCompile(`(?m)^#+ capstan ([a-z ]+)$`), "../docs/reference/cli.md")
	for command := range commands { // "token create" makes "token" a command, too
		commands[strings.Fields(command)[0]] = true
	}
	typed := regexp.MustCompile("(?m)(?:`|^\\$? ?(?:sudo )?)(make|(?:kubectl )?capstan) ([a-z][a-z0-9-]*)((?: [a-z][a-z0-9-]*)*)")
	pages := slices.Concat([]string{"../README.md"}, glob(t, "../docs/*.md"), glob(t, "../docs/guides/*.md"), glob(t, "../docs/spec/*.md"), glob(t, "../docs/spec/*/*.md"))
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range typed.FindAllStringSubmatch(string(text), -1) {
			checked++
			switch found[1] {
			case "make":
				for _, target := range append([]string{found[2]}, strings.Fields(found[3])...) {
					if !targets[target] {
						t.Errorf("%s: %q: there is no target %q", page, strings.TrimSpace(found[0]), target)
					}
				}
			default:
				if !commands[found[2]] {
					t.Errorf("%s: %q: there is no command %q", page, strings.TrimSpace(found[0]), "capstan "+found[2])
				}
			}
		}
	}
	const few = 50
	if checked < few {
		t.Errorf("only %d commands were found in the docs: look at the expression that finds them", checked)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no files (%v)", pattern, err)
	}
	return files
}

// matches returns what the first group of the expression finds in the files.
func matches(t *testing.T, expression *regexp.Regexp, files ...string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range expression.FindAllStringSubmatch(string(text), -1) {
			found[match[1]] = true
		}
	}
	return found
}
