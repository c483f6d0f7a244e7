// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"sync"
	"weak"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// CacheMax is how many sets a RuleSetCache shares.
const CacheMax = 1024

// RuleSetCache shares the sets of equal rules: what is compiled takes much more memory
// than its text, and the same rules are often in many works. It keeps no set
// that nobody else has. The zero value is ready, and may be used by several
// goroutines.
type RuleSetCache struct {
	mu   sync.Mutex
	sets map[[sha256.Size]byte]weak.Pointer[ConditionRuleSet]
}

// CompileShared is as the function Compile, but may return a set that it returned
// before.
func (c *RuleSetCache) CompileShared(rules []workv1.ConditionRule) *ConditionRuleSet {
	text, err := json.Marshal(rules)
	if err != nil { // texts only
		return CompileConditionRules(rules)
	}
	key := sha256.Sum256(text)
	c.mu.Lock()
	shared := c.sets[key].Value()
	c.mu.Unlock()
	if shared != nil {
		return shared
	}
	set := CompileConditionRules(rules) // takes long, so others may do the same meanwhile
	c.mu.Lock()
	defer c.mu.Unlock()
	if shared := c.sets[key].Value(); shared != nil {
		return shared
	}
	if len(c.sets) >= CacheMax {
		maps.DeleteFunc(c.sets, func(_ [sha256.Size]byte, p weak.Pointer[ConditionRuleSet]) bool { return p.Value() == nil })
	}
	if c.sets == nil {
		c.sets = map[[sha256.Size]byte]weak.Pointer[ConditionRuleSet]{}
	}
	if len(c.sets) < CacheMax {
		c.sets[key] = weak.Make(set)
	}
	return set
}
