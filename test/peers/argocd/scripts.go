// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	"github.com/argoproj/argo-cd/v3/resource_customizations"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	luajson "layeh.com/gopher-json"
)

// scripts are the health checks that Argo CD has in Lua, which go before those in Go. Argo CD's own package for them
// links all of Argo CD, so they are run here, with the same interpreter.
type scripts struct{}

var _ health.HealthOverride = scripts{}

// GetResourceHealth returns nil for a kind without a script.
func (scripts) GetResourceHealth(object *unstructured.Unstructured) (*health.HealthStatus, error) {
	kind := object.GroupVersionKind().GroupKind()
	script, err := resource_customizations.Embedded.ReadFile(path.Join(kind.Group, kind.Kind, "health.lua"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the health check of %s: %w", kind, err)
	}
	text, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding a %s for Lua: %w", kind, err)
	}
	state := lua.NewState()
	defer state.Close()
	value, err := luajson.Decode(state, text)
	if err != nil {
		return nil, fmt.Errorf("decoding a %s for Lua: %w", kind, err)
	}
	state.SetGlobal("obj", value)
	if err := state.DoString(string(script)); err != nil {
		return nil, fmt.Errorf("running the health check of %s: %w", kind, err)
	}
	verdict, is := state.Get(-1).(*lua.LTable)
	if !is {
		return nil, fmt.Errorf("the health check of %s returned a %s instead of a table", kind, state.Get(-1).Type())
	}
	return &health.HealthStatus{
		Status:  health.HealthStatusCode(lua.LVAsString(verdict.RawGetString("status"))),
		Message: lua.LVAsString(verdict.RawGetString("message")),
	}, nil
}
