// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"strings"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

// way is how manifests come to a member.
type way string

const (
	byWork   way = "by work"
	byPolicy way = "by policy"
)

// manifestRow is a line of the table: what somebody means, and changes at least twice. What is
// right is what the API server of the member makes of the same manifests when they are sent to
// it by POST and then by PUT: in the member, each object has a twin that the administrator
// writes, and both have to be equal.
type manifestRow struct {
	Name string
	// Steps are what is meant at first, and after each change.
	Steps []manifestStep
	// twins is in the member before, and there is one for the twins, too. Ours is there only for
	// the objects of the row, as kubectl apply has left it.
	twins, ours string
	// onHub is on the hub before templates are.
	onHub string
	// taken is called when the templates are on the hub and no policy is yet.
	taken func(*rowScene)
	// generated are fields that the API server makes at POST, and wants back at PUT.
	generated []string
	// allocated are fields that the member gives each object of its own, unless the manifest
	// has port PORT.
	allocated []string
	// writesPort tells apart the rows that use PORT, of which there can be two.
	writesPort int
	// policy is the spec of the policy without its selectors; empty for the cluster alone.
	policy string
	// replaces is why kubectl has to replace templates: the API server of the hub does not take
	// for the same what kubectl applies.
	replaces string
	// ends is called after the last step.
	ends func(*rowScene)
	// Run is there in place of steps for what no object of a member can show.
	Run func(*rowScene)
	// Without has, for each way that could show nothing, the reason.
	Without map[way]string
}

// manifestStep is what is meant at a time.
type manifestStep struct {
	// manifests are one object a line. NS is the namespace of the row, CLUSTER the name of the
	// cluster, NEXT that of another one, and PORT a number for a Service.
	manifests []string
	// Right are the manifests that make the twins if it is not these, and why.
	Right []string
	Why   string
	// recreated is for what no PUT changes: the twins are deleted and created, and so are
	// templates on the hub. After any other step, our objects have to be those that they were.
	recreated bool
	// says are parts of what the condition Applied of the first manifest says; allow is what the
	// administrator of the member does about it.
	says  []string
	allow func(*rowScene)
	// drift is a patch of our first object that has to be undone, others one of both that stays.
	drift, others string
}

// TestCases returns a case for each row and way.
func (r manifestRow) TestCases(users userClient) []promises.TestCase {
	var list []promises.TestCase
	for _, by := range []way{byWork, byPolicy} {
		c := promises.TestCase{Name: r.Name + ", " + string(by), Run: func(s *promises.Scene) { newRowScene(s, r, by, users).play() }}
		if reason := r.Without[by]; reason != "" {
			c.Without = map[installation.JoinMode]string{}
			for _, m := range installation.JoinModes() {
				c.Without[m] = reason
			}
		}
		list = append(list, c)
	}
	return list
}

// neighbourOf is the name of another cluster of the hub.
func neighbourOf(c *installation.Column) string {
	if c.Mode == installation.ModePush {
		return strings.ToLower(string(installation.ModePull))
	}
	return strings.ToLower(string(installation.ModePush))
}
