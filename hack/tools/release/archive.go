// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"

	"github.com/capstan-io/capstan/hack/tools/release/internal/archive"
)

func runArchive(_ context.Context, _ io.Writer, flags *flag.FlagSet, args []string) error {
	output := flags.String("o", "", "archive to write")
	var items list
	flags.Var(&items, "add", "name=path of a file, or of a directory whose files are added below the name; can be given more than once")
	if err := parse(flags, args, "o", "add"); err != nil {
		return err
	}
	date, err := sourceDate()
	if err != nil {
		return err
	}
	pairs, err := items.pairs()
	if err != nil {
		return err
	}
	var files []archive.File
	for _, item := range pairs {
		info, err := os.Stat(item.value)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			files = append(files, archive.File{Name: item.key, Source: item.value})
			continue
		}
		tree, err := archive.Tree(item.value, path.Clean(item.key)+"/")
		if err != nil {
			return err
		}
		if len(tree) == 0 {
			return fmt.Errorf("%s has no files", item.value)
		}
		files = append(files, tree...)
	}
	return archive.Write(*output, files, date)
}
