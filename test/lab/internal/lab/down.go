// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import "context"

// Down removes the lab and everything that belongs to it. It does not rely on
// the lab's state, so that it also removes what is left of a broken one.
func (l *Lab) Down(ctx context.Context) error {
	return l.alone(func() error {
		if err := kill(ctx, l.place.group()); err != nil {
			return err
		}
		if err := l.place.remains().Remove(); err != nil {
			return err
		}
		l.progress.Step("lab %s: removed", l.place.dir)
		return nil
	})
}

// Leftovers lists what the machine has of the lab: all of it while clusters
// run, and nothing after Down. Like Down, it does not rely on the lab's state.
func (l *Lab) Leftovers() ([]string, error) { return l.place.remains().Find() }
