// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"path/filepath"
)

// LoadImage loads an image archive into the named clusters, or into all that
// have a node if none is named.
func (l *Lab) LoadImage(ctx context.Context, archive string, names ...string) error {
	clusters, err := l.clusters(names...)
	if err != nil {
		return err
	}
	for _, c := range clusters {
		if c.Nodeless && len(names) == 0 {
			continue
		}
		if c.Nodeless {
			return fmt.Errorf("cluster %s has no node to load images into", c.Name)
		}
		if err := (node{c}).loadImage(ctx, archive); err != nil {
			return err
		}
		l.progress.Step("%s: %s loaded", c.Name, filepath.Base(archive))
	}
	return nil
}
