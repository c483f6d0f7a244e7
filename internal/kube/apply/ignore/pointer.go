// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ignore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

// jsonPointer is a JSON pointer (RFC 6901).
type jsonPointer []string

func compilePointer(text string) (pathSelector, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("a JSON pointer starts with a slash, such as /spec/replicas")
	}
	var p jsonPointer
	for part := range strings.SplitSeq(text[1:], "/") {
		key, err := unescapePointer(part)
		if err != nil {
			return nil, err
		}
		p = append(p, key)
	}
	return p, nil
}

func unescapePointer(part string) (string, error) {
	var key strings.Builder
	for i := 0; i < len(part); i++ {
		if part[i] != '~' {
			key.WriteByte(part[i])
			continue
		}
		i++
		switch {
		case i < len(part) && part[i] == '0':
			key.WriteByte('~')
		case i < len(part) && part[i] == '1':
			key.WriteByte('/')
		default:
			return "", fmt.Errorf("in a JSON pointer a ~ is written as ~0 and a slash in a name as ~1, but %q has another ~", part)
		}
	}
	return key.String(), nil
}

func (p jsonPointer) selectPaths(_ context.Context, object map[string]any, _ *budget.Budget) ([]Path, error) {
	var value any = object
	path := make(Path, 0, len(p))
	for _, part := range p {
		switch container := value.(type) {
		case map[string]any:
			inner, there := container[part]
			if !there {
				return nil, nil
			}
			value = inner
			path = append(path, part)
		case []any:
			index, ok := parseListIndex(part)
			if !ok || index >= len(container) {
				return nil, nil
			}
			value = container[index]
			path = append(path, index)
		default:
			return nil, nil
		}
	}
	return []Path{path}, nil
}

// parseListIndex reads the index of a list item, which has no leading zeros.
func parseListIndex(part string) (int, bool) {
	index, err := strconv.ParseUint(part, 10, 31)
	if err != nil || strconv.FormatUint(index, 10) != part {
		return 0, false
	}
	return int(index), true
}

func formatPointer(path Path) string {
	var text strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, step := range path {
		text.WriteByte('/')
		_, _ = escape.WriteString(&text, fmt.Sprint(step)) // a builder takes everything
	}
	return text.String()
}
