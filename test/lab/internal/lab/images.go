// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
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
		if err := c.loadImage(ctx, archive); err != nil {
			return err
		}
		l.progress.Step("%s: %s loaded", c.Name, filepath.Base(archive))
	}
	return nil
}

// loadBundledImages loads the images that were built along with this program.
func (c *cluster) loadBundledImages(ctx context.Context) error {
	archives, err := filepath.Glob(filepath.Join(c.lab.bin, "images", "*.tar"))
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	if len(archives) == 0 {
		return errors.New("there are no images beside the executable: build them with make")
	}
	for _, archive := range archives {
		if err := c.loadImage(ctx, archive); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) loadImage(ctx context.Context, archive string) error {
	cmd := exec.CommandContext(ctx, "ctr", "--address", c.path("containerd.sock"), "--namespace", "k8s.io",
		"images", "import", archive)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load image %s into cluster %s: %w: %s", archive, c.Name, err, output)
	}
	return nil
}
