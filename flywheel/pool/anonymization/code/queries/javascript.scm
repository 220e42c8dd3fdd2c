; Declarations.
(function_declaration name: (identifier) @func)
(generator_function_declaration name: (identifier) @func)
(function_expression name: (identifier) @func)
(class_declaration name: (_) @class) @owner
(class name: (_) @class) @owner
(variable_declarator name: (identifier) @func value: [(arrow_function) (function_expression)])
(variable_declarator name: (identifier) @var)
(arrow_function parameter: (identifier) @var)
(catch_clause parameter: (identifier) @var)
(for_in_statement kind: _ left: (identifier) @var)
(array_pattern (identifier) @var)
(rest_pattern (identifier) @var)
(assignment_pattern left: (identifier) @var)
(pair_pattern value: (identifier) @var)
(labeled_statement label: (statement_identifier) @var)
(class_body (method_definition name: [(property_identifier) (private_property_identifier)] @method))
((assignment_expression left: (member_expression object: (this) property: [(property_identifier) (private_property_identifier)] @field)))

; Uses.
(member_expression object: (_) @receiver property: [(property_identifier) (private_property_identifier)] @member)
(shorthand_property_identifier) @shorthand
(object_pattern (shorthand_property_identifier_pattern) @var.shorthand)
(object_assignment_pattern left: (shorthand_property_identifier_pattern) @var.shorthand)

; Not ours.
(import_clause (identifier) @imported)
(namespace_import (identifier) @foreign)
(import_specifier name: (identifier) @imported)
(import_specifier alias: (identifier) @imported)
((variable_declarator name: [(identifier) @foreign (object_pattern (shorthand_property_identifier_pattern) @imported)] value: (call_expression function: (identifier) @require))
 (#eq? @require "require"))

; Text.
(comment) @comment
[(string) (template_string)] @string
(regex_pattern) @string
