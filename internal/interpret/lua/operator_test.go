// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"context"
	"errors"
	"testing"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestAScriptThatWasTooSlowIsRunAgain tells the limit that says more of the machine than
// of the script from the others.
func TestAScriptThatWasTooSlowIsRunAgain(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		source string
		slow   bool
	}{
		"it takes too long":       {over, "function F() while true do end end", true},
		"and catches that":        {over, "function F() while true do pcall(function() while true do end end) end end", true},
		"it takes too many steps": {t.Context(), "function F() while true do end end", false},
		"it says the same":        {t.Context(), "function F() error('" + errSlow.Error() + "') end", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script, err := CompileScript("test", "F", c.source)
			expect.NoError(t, err)
			r := newRun(atNoon)
			r.meter.resetMeter(c.ctx, 0)
			_, err = r.callFunction(script, ScriptCall{})
			if err == nil || errors.Is(err, errSlow) != c.slow {
				t.Errorf("got %v; want that it is too slow: %t", err, c.slow)
			}
			o := &scriptedOperation{machine: NewMachine(atNoon), by: "somebody", operation: Retention}
			if again := interpret.RetryDelayOf(o.customError(err)); (again == slowAgain) != c.slow || (again == 0) == c.slow {
				t.Errorf("%v: it is run again after %s", err, again)
			}
		})
	}
}
